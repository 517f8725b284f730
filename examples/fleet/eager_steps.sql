-- The share of steps that no CUDA or HIP graph replays, by model, GPU and stage.
SELECT model, gpu, stage, count(DISTINCT run) AS runs, sum(steps) AS steps, round(100 * sum(eager_steps) / sum(steps), 1) AS eager_pct,
       round(avg(replayed_time_pct), 1) AS replayed_time_pct
FROM graphs JOIN runs USING (run) WHERE status = 'ok' AND steps > 0 GROUP BY ALL ORDER BY eager_pct DESC, steps DESC LIMIT 20;
