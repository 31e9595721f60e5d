-- A sign before an interval was that of its first part alone.
SELECT DATE '2026-01-01' + (-INTERVAL '1 year 1 month'), DATE '2026-01-01' + INTERVAL -'1 day 2 hours', DATE '2026-01-01' - (-INTERVAL '1 day 02:30');
--> 2024-12-01T00:00:00 | 2025-12-30T22:00:00 | 2026-01-02T02:30:00

SELECT extract(month FROM -INTERVAL '1 year 1 month'), extract(year FROM -INTERVAL '1 year 1 month');
--> -1 | -1

SELECT -INTERVAL '1 day 2 hours' = -(INTERVAL '1 day 2 hours'), -INTERVAL -'1 month 1 day' = INTERVAL '1 month 1 day', - - INTERVAL '1 day 1 hour' = INTERVAL '1 day 1 hour';
--> true | true | true

SELECT -INTERVAL '1 day -2 hours' = INTERVAL '-1 day 2 hours', INTERVAL -'1' DAY = INTERVAL '-1 day', -INTERVAL 3 DAY = INTERVAL '-3 days';
--> true | true | true

SELECT x FROM generate_series(TIMESTAMP '2026-01-03', TIMESTAMP '2026-01-01', -INTERVAL '1 day') AS t(x) ORDER BY x;
--> 2026-01-01T00:00:00
--> 2026-01-02T00:00:00
--> 2026-01-03T00:00:00

-- Fields, as SQL's standard writes them.
SELECT DATE '2026-01-01' + INTERVAL '1-2' YEAR TO MONTH, DATE '2026-01-01' + INTERVAL '-1-2' YEAR TO MONTH, DATE '2026-01-01' - INTERVAL '1 10:30' DAY TO MINUTE;
--> 2027-03-01T00:00:00 | 2024-11-01T00:00:00 | 2025-12-30T13:30:00

SELECT INTERVAL -'1 10:20:30.5' DAY TO SECOND = -INTERVAL '1 day 10 hours 20 minutes 30.5 seconds', INTERVAL '100:30' HOUR TO MINUTE = INTERVAL '100.5 hours';
--> true | true

SELECT INTERVAL '-1 10:20' DAY TO MINUTE;
--> refused: a sign that may be that of the days or of all

SELECT INTERVAL '1-13' YEAR TO MONTH;
--> refused: no interval of year to month
