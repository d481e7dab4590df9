"""Pure decisions: facts in, values out. No clock, no input or output, no logging, no asyncio."""
