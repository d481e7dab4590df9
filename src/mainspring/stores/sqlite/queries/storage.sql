-- How much room the database takes.

-- name: read_storage
-- What is used of the file: pages that are free are used before it grows. The file of logs counts as it is.
SELECT (pages.page_count - free.freelist_count + logs.page_count) * size.page_size
FROM pragma_page_count('main') AS pages, pragma_freelist_count AS free, pragma_page_size AS size,
    pragma_page_count('logs') AS logs;
