"""Encrypts what users put into jobs and runs before it reaches the store, and decrypts what comes back.

`EncryptedStore` stands between the engine and a store. Without keys there is none, and nothing here is imported.
"""
