"""A trace's files, cut into segments that can be counted one by one."""
