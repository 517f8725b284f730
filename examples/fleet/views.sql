-- A view for each table of the facts in the folder FACTS. Run it before the other queries:
--   cd FACTS && duckdb -init views.sql < findings_cost.sql
-- `run` is the id of a run, from the name of its folder.
CREATE VIEW runs AS SELECT *, tags::JSON->>'commit' AS "commit", tags::JSON->>'host' AS host FROM read_parquet('table=runs/*/*.parquet', hive_partitioning = true, union_by_name = true);
CREATE VIEW kernels AS SELECT * FROM read_parquet('table=kernels/*/*.parquet', hive_partitioning = true, union_by_name = true);
CREATE VIEW stages AS SELECT * FROM read_parquet('table=stages/*/*.parquet', hive_partitioning = true, union_by_name = true);
CREATE VIEW steps AS SELECT * FROM read_parquet('table=steps/*/*.parquet', hive_partitioning = true, union_by_name = true);
CREATE VIEW graphs AS SELECT * FROM read_parquet('table=graphs/*/*.parquet', hive_partitioning = true, union_by_name = true);
CREATE VIEW idle AS SELECT * FROM read_parquet('table=idle/*/*.parquet', hive_partitioning = true, union_by_name = true);
CREATE VIEW findings AS SELECT * FROM read_parquet('table=findings/*/*.parquet', hive_partitioning = true, union_by_name = true);
