"""Other schedulers: how late 1,000 jobs start that are due in one second, among so many others, and in what memory."""
