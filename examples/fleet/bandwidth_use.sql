-- How far steps are from what the memory of their GPU allows, by model, GPU and stage. Floors need the config of the model beside the traces.
SELECT model, gpu, stage, count(*) AS runs, round(median(mbu_pct), 1) AS mbu_pct, round(median(measured_ms), 3) AS measured_ms, round(median(floor_ms), 3) AS floor_ms
FROM read_parquet('table=floors/*/*.parquet', hive_partitioning = true, union_by_name = true) JOIN runs USING (run)
WHERE confidence IS DISTINCT FROM 'guess' GROUP BY ALL ORDER BY mbu_pct LIMIT 20;
