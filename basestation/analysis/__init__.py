"""What is computed of logs and traces: functions over arrays, tables and plain data. No Spark, no engine, no files."""
