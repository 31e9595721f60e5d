-- A TIMESTAMP has microseconds, and reaches over all dates, as in Spark, PostgreSQL and DuckDB.
COPY (SELECT id, CASE WHEN id % 2 = 0 THEN TIMESTAMP '9999-12-31 23:59:59.123456' ELSE TIMESTAMP '0001-01-01' END AS ts
  FROM generate_series(1, 2) AS t(id)) TO '~/far.parquet';

SELECT coalesce(ts, TIMESTAMP '2020-01-01'), coalesce(ts, CAST('2020-01-02' AS TIMESTAMP)) FROM '~/far.parquet' ORDER BY id;
--> 0001-01-01T00:00:00 | 0001-01-01T00:00:00
--> 9999-12-31T23:59:59.123456 | 9999-12-31T23:59:59.123456

SELECT count(coalesce(ts, now())) FROM '~/far.parquet';
--> 2

SELECT ts FROM '~/far.parquet' UNION ALL SELECT TIMESTAMP '2020-01-01';
--> 0001-01-01T00:00:00
--> 2020-01-01T00:00:00
--> 9999-12-31T23:59:59.123456

SELECT id FROM '~/far.parquet' WHERE ts IN (TIMESTAMP '2020-01-01', TIMESTAMP '0001-01-01');
--> 1

SELECT a.id FROM '~/far.parquet' a JOIN (SELECT s::TIMESTAMP AS t FROM (VALUES ('2020-01-01')) AS v(s)) b ON a.ts > b.t;
--> 2

SELECT a.id FROM '~/far.parquet' a JOIN (SELECT TIMESTAMP '0001-01-01' AS t) b ON a.ts = b.t;
--> 1

SELECT id FROM '~/far.parquet' WHERE ts BETWEEN TIMESTAMP '0001-01-01' AND now();
--> 1

SELECT date_trunc('year', ts), date_trunc('week', ts), date_trunc('day', ts) FROM '~/far.parquet' ORDER BY id;
--> 0001-01-01T00:00:00 | 0001-01-01T00:00:00 | 0001-01-01T00:00:00
--> 9999-01-01T00:00:00 | 9999-12-27T00:00:00 | 9999-12-31T00:00:00

SELECT date_trunc('month', DATE '9999-12-31'), date_trunc('hour', TIMESTAMP '2024-05-06 07:08:09.5'), date_trunc('month', '2024-05-06');
--> 9999-12-01T00:00:00 | 2024-05-06T07:00:00 | 2024-05-01T00:00:00

SELECT date_bin(INTERVAL '1 month', ts), date_bin(INTERVAL '1 hour', ts, TIMESTAMP '2001-01-01 00:30:00') FROM '~/far.parquet' ORDER BY id;
--> 0001-01-01T00:00:00 | 0000-12-31T23:30:00
--> 9999-12-01T00:00:00 | 9999-12-31T23:30:00

SELECT CASE WHEN id > 1 THEN ts ELSE TIMESTAMP '2020-01-01' END, greatest(ts, TIMESTAMP '2020-01-01') FROM '~/far.parquet' ORDER BY id;
--> 2020-01-01T00:00:00 | 2020-01-01T00:00:00
--> 9999-12-31T23:59:59.123456 | 9999-12-31T23:59:59.123456

SELECT TIMESTAMP '9999-12-31', '0001-01-01'::TIMESTAMP, CAST('9999-12-31 12:00:00+00' AS TIMESTAMPTZ);
--> 9999-12-31T00:00:00 | 0001-01-01T00:00:00 | 9999-12-31T12:00:00Z

-- A text that is written with nanoseconds keeps them.
SELECT TIMESTAMP '2020-01-01 00:00:00.123456789', '2020-01-01 00:00:00.123456789'::TIMESTAMP = '2020-01-01 00:00:00.123456788'::TIMESTAMP;
--> 2020-01-01T00:00:00.123456789 | false

SELECT arrow_typeof(TIMESTAMP '2020-01-01'), arrow_typeof('2020-01-02'::TIMESTAMP(9));
--> Timestamp(µs) | Timestamp(ns)

-- A series of them, and sums with intervals that have more digits.
SELECT value FROM generate_series(TIMESTAMP '2020-01-01', TIMESTAMP '2020-01-02', INTERVAL '1 day');
--> 2020-01-01T00:00:00
--> 2020-01-02T00:00:00

SELECT TIMESTAMP '2020-01-01' + INTERVAL '1 nanosecond', TIMESTAMP(0) '2020-01-01' - INTERVAL '500 milliseconds', INTERVAL '1 ms' + from_unixtime(0);
--> 2020-01-01T00:00:00.000000001 | 2019-12-31T23:59:59.500 | 1970-01-01T00:00:00.001

SELECT to_timestamp('9999-12-31 10:00:00'), to_timestamp('2020-01-01 10:00:00+02'), to_timestamp('01/02/2020', '%m/%d/%Y');
--> 9999-12-31T10:00:00Z | 2020-01-01T08:00:00Z | 2020-01-02T00:00:00Z

CREATE VIEW recent AS SELECT now() AS n, TIMESTAMP '9999-12-31' AS t;

SELECT n < t, t - INTERVAL '1 day' FROM recent;
--> true | 9999-12-30T00:00:00
