"""The reference's data: what the ranks read, put together again, in place of what one process would read by itself."""
