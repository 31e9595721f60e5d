-- A grand total filters the scan below by the min and max that it has so far, and forgot those that are no columns or null so far.
COPY (SELECT value AS a, value AS b, CASE WHEN value > 50000 THEN value END AS c FROM generate_series(0, 100000)) TO '~/m.parquet' OPTIONS ('format.max_row_group_size' '10000');

SELECT min(a), max(b + 1) FROM '~/m.parquet';
--> 0 | 100001

SELECT min(a), min(c) FROM '~/m.parquet' WHERE b >= 0;
--> 0 | 50001

SELECT min(a), min(c), max(b) FROM '~/m.parquet' WHERE b >= 0;
--> 0 | 50001 | 100000

SELECT min(a), max(-b), max(b) FILTER (WHERE a > 70000) FROM '~/m.parquet';
--> 0 | 0 | 100000

SELECT min(c) FROM '~/m.parquet' WHERE b >= 0;
--> 50001

SELECT max(a), max(b) FROM '~/m.parquet' WHERE b % 2 = 1;
--> 99999 | 99999
