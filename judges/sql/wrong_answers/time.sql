-- Timestamps, dates, intervals and zones.

-- Intervals are compared by their length: a month is 30 days, a day 24 hours.
SELECT INTERVAL '1 month' = INTERVAL '30 days', INTERVAL '24 hours' = INTERVAL '1 day', INTERVAL '1 year' = INTERVAL '365 days';
--> true | true | false

SELECT INTERVAL '45 days' > INTERVAL '1 month', INTERVAL '1 month' < INTERVAL '31 days', INTERVAL '-1 day' < INTERVAL '1 hour';
--> true | true | true

SELECT (TIMESTAMP '2024-03-20' - TIMESTAMP '2024-03-01') > INTERVAL '10 days';
--> true

SELECT (TIMESTAMP '2024-03-20' - TIMESTAMP '2024-03-01') BETWEEN INTERVAL '10 days' AND INTERVAL '1 month';
--> true

SELECT INTERVAL '720 hours' IN (INTERVAL '1 day', INTERVAL '1 month'), INTERVAL '720 hours' NOT IN (INTERVAL '1 day');
--> true | true

SELECT CASE INTERVAL '30 days' WHEN INTERVAL '1 month' THEN 'a month' ELSE 'another' END;
--> a month

SELECT INTERVAL '30 days' IS DISTINCT FROM INTERVAL '1 month', INTERVAL '30 days' IS NOT DISTINCT FROM NULL;
--> false | false

SELECT nullif(INTERVAL '1 month', INTERVAL '30 days') IS NULL, nullif(INTERVAL '1 month', INTERVAL '31 days') IS NULL;
--> true | false

SELECT extract(epoch FROM greatest(INTERVAL '1 month', NULL, INTERVAL '31 days')) / 86400, extract(epoch FROM least(INTERVAL '31 days', INTERVAL '1 month')) / 86400;
--> 31.0 | 30.0

CREATE TABLE spans AS SELECT column1 AS n, column2 AS i FROM (VALUES (1, INTERVAL '1 month'), (2, INTERVAL '45 days'), (3, INTERVAL '30 days'), (4, INTERVAL '720 hours'), (5, NULL), (6, INTERVAL '2 days'));

SELECT n FROM spans ORDER BY i, n;
--> 6
--> 1
--> 3
--> 4
--> 2
--> 5

SELECT n FROM spans WHERE i >= INTERVAL '1 month' ORDER BY n;
--> 1
--> 2
--> 3
--> 4

-- What is shown is what was there.
SELECT extract(day FROM max(i)), extract(month FROM max(i)), extract(day FROM min(i)) FROM spans;
--> 45 | 0 | 2

SELECT count(*) FROM (SELECT DISTINCT i FROM spans);
--> 4

SELECT count(DISTINCT i) FROM spans;
--> 3

SELECT extract(epoch FROM i) / 86400, count(*) FROM spans GROUP BY i;
--> 2.0 | 1
--> 30.0 | 3
--> 45.0 | 1
--> NULL | 1

SELECT extract(day FROM i), extract(month FROM i), count(*) FROM spans WHERE n = 2 GROUP BY i;
--> 45 | 0 | 1

SELECT grouping(i), extract(epoch FROM i) / 86400 AS d, count(*) FROM spans GROUP BY ROLLUP (i);
--> 0 | 2.0 | 1
--> 0 | 30.0 | 3
--> 0 | 45.0 | 1
--> 0 | NULL | 1
--> 1 | NULL | 6

SELECT a.n, b.n FROM spans a JOIN spans b ON a.i = b.i WHERE a.n < b.n;
--> 1 | 3
--> 1 | 4
--> 3 | 4

SELECT n, m FROM (SELECT n, i FROM spans) a JOIN (SELECT n AS m, i FROM spans) b USING (i) WHERE n < m;
--> 1 | 3
--> 1 | 4
--> 3 | 4

SELECT n FROM spans WHERE i IN (SELECT INTERVAL '30 days');
--> 1
--> 3
--> 4

SELECT n FROM spans WHERE i > ALL (SELECT INTERVAL '30 days');
--> 2

SELECT n FROM spans s WHERE EXISTS (SELECT 1 FROM spans t WHERE t.i = s.i AND t.n > s.n);
--> 1
--> 3

SELECT n, row_number() OVER (PARTITION BY i ORDER BY n), rank() OVER (ORDER BY i) FROM spans WHERE i IS NOT NULL ORDER BY n;
--> 1 | 1 | 2
--> 2 | 1 | 5
--> 3 | 2 | 2
--> 4 | 3 | 2
--> 6 | 1 | 1

SELECT n, extract(epoch FROM max(i) OVER (ORDER BY n ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)) / 86400 FROM spans WHERE i IS NOT NULL ORDER BY n;
--> 1 | 30.0
--> 2 | 45.0
--> 3 | 45.0
--> 4 | 30.0
--> 6 | 30.0

SELECT string_agg(n::varchar, ',' ORDER BY i DESC, n) FROM spans WHERE i IS NOT NULL;
--> 2,1,3,4,6

SELECT count(*) FROM (SELECT i FROM spans UNION SELECT INTERVAL '45 days');
--> 4

SELECT count(*) FROM (SELECT i FROM spans INTERSECT SELECT INTERVAL '1 month');
--> 1

SELECT count(*) FROM (SELECT i FROM spans EXCEPT SELECT INTERVAL '1 month');
--> 3

SELECT count(*) OVER (ORDER BY i RANGE BETWEEN INTERVAL '1 day' PRECEDING AND CURRENT ROW) FROM spans;
--> refused: range

SELECT array_agg(DISTINCT i) FROM spans;
--> refused: intervals

SELECT [INTERVAL '1 month'] = [INTERVAL '30 days'];
--> refused: intervals

-- Units of intervals.
SELECT INTERVAL 3 decades = INTERVAL '30 years', INTERVAL '2' centuries = INTERVAL '200 years', INTERVAL 2 weeks = INTERVAL '14 days';
--> true | true | true

SELECT INTERVAL 5 years = INTERVAL '5' year, INTERVAL 3 months = INTERVAL '3 months', INTERVAL 36 hours = INTERVAL '1.5 days', INTERVAL 90 minutes = INTERVAL '5400 seconds', INTERVAL 5000 milliseconds = INTERVAL 5 seconds;
--> true | true | true | true | true

SELECT INTERVAL 3 fortnights;
--> refused: unit

SELECT INTERVAL 3;
--> refused: unit

SELECT INTERVAL '47.21';
--> refused: unit

SELECT INTERVAL '1 day 5';
--> refused: unit

SELECT '47.21'::interval;
--> refused: unit

SELECT x::interval FROM (VALUES ('5')) v(x);
--> refused: unit

SELECT x::interval = INTERVAL '26 hours 3 minutes' FROM (VALUES ('1 day 02:03:00')) v(x);
--> true

SELECT INTERVAL '1 day 02:03:04' = INTERVAL '1 day 2 hours 3 minutes 4 seconds';
--> true

SELECT try_cast('3 fortnights' AS interval) IS NULL;
--> true

-- Zones.
SELECT (TIMESTAMPTZ '2024-07-01 12:00:00+00' AT TIME ZONE 'Europe/Berlin')::varchar;
--> 2024-07-01 14:00:00

SELECT (TIMESTAMP '2024-07-01 12:00:00' AT TIME ZONE 'Europe/Berlin')::varchar;
--> 2024-07-01 10:00:00+00

SELECT TIMESTAMP '2024-07-01 12:00:00' AT TIME ZONE 'Europe/Berlin' AT TIME ZONE 'Europe/Berlin' = TIMESTAMP '2024-07-01 12:00:00';
--> true

SELECT (TIMESTAMP '2024-03-31 02:30:00' AT TIME ZONE 'Europe/Berlin')::varchar, (TIMESTAMP '2024-10-27 02:30:00' AT TIME ZONE 'Europe/Berlin')::varchar;
--> 2024-03-31 01:30:00+00 | 2024-10-27 01:30:00+00

SELECT (t AT TIME ZONE z)::varchar FROM (VALUES (TIMESTAMP '2024-01-01 00:00:00', 'Asia/Kolkata'), (TIMESTAMP '2024-01-01 00:00:00', '-05:00'), (TIMESTAMP '2024-01-01 00:00:00', NULL)) v(t, z);
--> 2023-12-31 18:30:00+00
--> 2024-01-01 05:00:00+00
--> NULL

SELECT extract(hour FROM TIMESTAMPTZ '2024-07-01 12:00:00+02' AT TIME ZONE 'Asia/Tokyo');
--> 19

SELECT (TIMESTAMPTZ '2024-07-01 12:00:00+02')::timestamp::varchar, (TIMESTAMP '2024-07-01 12:00:00')::timestamptz::varchar;
--> 2024-07-01 10:00:00 | 2024-07-01 12:00:00+00

SELECT TIMESTAMPTZ '2024-07-01 12:00:00+02' = TIMESTAMPTZ '2024-07-01 10:00:00+00', TIMESTAMPTZ '2024-07-01 12:00:00+02' = TIMESTAMP '2024-07-01 10:00:00';
--> true | true

SELECT n, n AT TIME ZONE 'Asia/Tokyo' = TIMESTAMP '2024-07-01 21:00:00' AS same FROM (SELECT TIMESTAMPTZ '2024-07-01 12:00:00+00' AS n);
--> 2024-07-01T12:00:00Z | true

SELECT now() AT TIME ZONE 'Asia/Tokyo' - now()::timestamp = INTERVAL '9 hours';
--> true

SELECT TIMESTAMP '2024-07-01 12:00:00' AT TIME ZONE 'Europe/Nowhere';
--> refused: Europe/Nowhere

SELECT DATE '2024-07-01' AT TIME ZONE 'Europe/Berlin';
--> refused: TIMESTAMP

SET TIME ZONE = 'Europe/Berlin';

SELECT (TIMESTAMPTZ '2024-07-01 12:00:00+00')::varchar, (TIMESTAMPTZ '2024-07-01 12:00:00+00')::timestamp::varchar, (TIMESTAMP '2024-07-01 12:00:00' AT TIME ZONE 'UTC')::varchar;
--> 2024-07-01 14:00:00+02 | 2024-07-01 14:00:00 | 2024-07-01 14:00:00+02

SELECT (TIMESTAMP '2024-10-27 02:30:00')::timestamptz::varchar, (TIMESTAMP '2024-03-31 02:30:00')::timestamptz::varchar;
--> 2024-10-27 02:30:00+01 | 2024-03-31 03:30:00+02

SET TIME ZONE = 'UTC';

-- A date and an interval are a timestamp.
SELECT (DATE '2024-01-01' - INTERVAL '1 second')::varchar, (INTERVAL '36 hours' + DATE '2024-01-01')::varchar, (DATE '2024-01-31' + INTERVAL '1 month')::varchar;
--> 2023-12-31 23:59:59 | 2024-01-02 12:00:00 | 2024-02-29 00:00:00

SELECT arrow_typeof(DATE '2024-01-01' + 5), DATE '2024-01-01' + 5, DATE '2024-01-03' - DATE '2024-01-01';
--> Date32 | 2024-01-06 | 2

SELECT (DATE '9999-12-31' - INTERVAL '1 day')::varchar, (DATE '0001-01-01' + INTERVAL '1 hour')::varchar;
--> 9999-12-30 00:00:00 | 0001-01-01 01:00:00

CREATE TABLE days AS SELECT column1 AS d FROM (VALUES (DATE '2024-01-01'), (DATE '2024-01-02'), (DATE '9999-12-31'), (NULL));

SELECT d FROM days WHERE d <= DATE '2024-01-03' - INTERVAL '1 day' ORDER BY d;
--> 2024-01-01
--> 2024-01-02

SELECT d FROM days WHERE d < DATE '2024-01-01' + INTERVAL '1 hour';
--> 2024-01-01

SELECT d FROM days WHERE d >= DATE '2024-01-01' + INTERVAL '1 hour' ORDER BY d;
--> 2024-01-02
--> 9999-12-31

SELECT d FROM days WHERE d = DATE '2024-01-01' + INTERVAL '1 hour';
--> no rows

SELECT d FROM days WHERE d = DATE '2024-01-01' + INTERVAL '1 day';
--> 2024-01-02

SELECT d FROM days WHERE d BETWEEN DATE '2024-01-01' + INTERVAL '1 hour' AND DATE '9999-12-31' - INTERVAL '1 hour';
--> 2024-01-02

SELECT d FROM days WHERE d + INTERVAL '1 day' > DATE '9999-12-31';
--> 9999-12-31

-- Parts of intervals, and of the differences of timestamps.
SELECT extract(day FROM t), extract(hour FROM t), extract(minute FROM t), extract(epoch FROM t) FROM (SELECT TIMESTAMP '2024-02-29 18:05:00' - TIMESTAMP '2024-01-01' AS t);
--> 59 | 18 | 5 | 5162700.0

SELECT extract(hour FROM INTERVAL '59 days 18 hours'), extract(day FROM INTERVAL '59 days 18 hours'), extract(year FROM INTERVAL '14 months'), extract(month FROM INTERVAL '14 months'), extract(minute FROM INTERVAL '125 minutes');
--> 18 | 59 | 1 | 2 | 5

SELECT extract(millisecond FROM INTERVAL '90.5 seconds'), extract(microsecond FROM INTERVAL '90.5 seconds'), extract(epoch FROM INTERVAL '1 year'), extract(decade FROM INTERVAL '25 years'), extract(quarter FROM INTERVAL '7 months');
--> 30500 | 30500000 | 31557600.0 | 2 | 3

SELECT extract(dow FROM INTERVAL '1 day');
--> refused: dow

SELECT date_part('hour', TIMESTAMP '2024-02-29 18:05:00');
--> 18

-- Timestamps without seconds, and with single digits.
SELECT (TIMESTAMP '2024-01-05 10:00')::varchar, ('2024-1-5 9:05'::timestamp)::varchar, (TIMESTAMP '2024-01-05T10:00')::varchar;
--> 2024-01-05 10:00:00 | 2024-01-05 09:05:00 | 2024-01-05 10:00:00

SELECT (x::timestamp)::varchar FROM (VALUES ('2024-01-05 10:00'), ('2024-01-05 10:00:00.25'), (NULL)) v(x);
--> 2024-01-05 10:00:00
--> 2024-01-05 10:00:00.25
--> NULL

SELECT (TIMESTAMPTZ '2024-01-05 10:00+02')::varchar;
--> 2024-01-05 08:00:00+00

SELECT '2024-01-05 10'::timestamp;
--> refused: no timestamp

SELECT 'tomorrow'::timestamp;
--> refused: 'tomorrow' is no timestamp

SELECT try_cast('tomorrow' AS timestamp) IS NULL, try_cast('2024-01-05 10:00' AS timestamp) IS NULL;
--> true | false

SELECT TIMESTAMP(9) '9999-12-31 00:00:00';
--> refused: 2262

SELECT (TIMESTAMP(6) '9999-12-31 00:00:00')::varchar;
--> 9999-12-31 00:00:00

-- What is left of a part of a month was dropped.
SELECT INTERVAL '0.05 month';
--> refused: no whole number of days

SELECT INTERVAL '0.05' YEAR;
--> refused: no whole number of months

SELECT DATE '2024-01-01' + INTERVAL '0.5' MONTH, DATE '2024-01-01' + INTERVAL '1.5 years';
--> 2024-01-16T00:00:00 | 2025-07-01T00:00:00

-- Numbers are seconds since 1970, in whichever zone they are shown.
SELECT to_timestamp(1), to_timestamp(-1.5), to_timestamp(1e0), to_timestamp(253402300799);
--> 1970-01-01T00:00:01Z | 1969-12-31T23:59:58.500Z | 1970-01-01T00:00:01Z | 9999-12-31T23:59:59Z

SELECT to_timestamp(1284352323::DOUBLE * 100000000);
--> refused: beyond the times of a TIMESTAMP

SELECT to_timestamp('NaN'::DOUBLE);
--> refused: NaN

SET TIME ZONE = 'America/Los_Angeles';

SELECT to_timestamp(1), extract(epoch FROM to_timestamp(1)), extract(epoch FROM to_timestamp(1.5)), extract(epoch FROM to_timestamp_seconds(1));
--> 1969-12-31T16:00:01-08:00 | 1.0 | 1.5 | 1.0

RESET datafusion.execution.time_zone;

SELECT array_to_string([TIMESTAMP '2020-01-01 00:00:00', TIMESTAMP '2020-01-01 00:00:01.5'], ', '), [TIMESTAMP '2020-01-01']::TEXT[];
--> 2020-01-01 00:00:00, 2020-01-01 00:00:01.5 | [2020-01-01 00:00:00]

-- An interval has whole centuries, and a time is within one.
SELECT century(INTERVAL '250 years') AS a, century(INTERVAL '-250 years') AS b, century(INTERVAL '1 month') AS c, millennium(INTERVAL '2500 years') AS d, century(TIMESTAMP '2000-12-31') AS e, century(DATE '2001-01-01') AS f, millennium(DATE '2000-01-01') AS g;
--> 2 | -2 | 0 | 2 | 20 | 21 | 2
