-- Runs that could not be read, by reason.
SELECT count(*) AS runs, any_value(path) AS example, reason FROM runs WHERE status = 'failed' GROUP BY reason ORDER BY runs DESC LIMIT 20;
