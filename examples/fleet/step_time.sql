-- The history of step times: the median over the runs of each day, by model, GPU and stage, with the spread between runs.
SELECT model, gpu, stage, make_timestamp(modified_unix_ms * 1000)::DATE AS day, count(*) AS runs, round(median(median_ns) / 1e6, 3) AS step_ms,
       round(quantile_cont(median_ns, 0.1) / 1e6, 3) AS p10_ms, round(quantile_cont(median_ns, 0.9) / 1e6, 3) AS p90_ms
FROM stages JOIN runs USING (run) WHERE status = 'ok' GROUP BY ALL ORDER BY model, gpu, stage, day;
