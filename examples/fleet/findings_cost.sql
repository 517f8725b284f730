-- What the findings cost in all runs together, in seconds of a GPU. Costs of findings may contain the same time, so they do not add up.
SELECT id, any_value(title) AS title, count(DISTINCT run) AS runs, round(sum(cost_ms) / 1e3, 3) AS gpu_seconds,
       round(100 * sum(cost_ms) / sum(wall_ns) * 1e6, 2) AS of_wall_pct
FROM findings JOIN runs USING (run) WHERE status = 'ok' GROUP BY id ORDER BY gpu_seconds DESC;
