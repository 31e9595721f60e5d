-- A grand total with a FILTER was taken for the one below it, whose functions a scan's statistics answer.
COPY (SELECT value AS x FROM generate_series(1, 9)) TO '~/x.parquet';

SELECT count(*) FILTER (WHERE q.m > 50) FROM (SELECT max(x) AS m FROM '~/x.parquet') AS q;
--> 0

SELECT sum(q.m) FILTER (WHERE q.m > 50) AS s FROM (SELECT max(x) AS m FROM '~/x.parquet') AS q;
--> NULL

SELECT count(*) FILTER (WHERE q.m > 5) AS n, min(q.n) FROM (SELECT max(x) AS m, count(*) AS n FROM '~/x.parquet') AS q WHERE q.n > 1;
--> 1 | 9

SELECT q.m + 1 FROM (SELECT max(p.m) FILTER (WHERE p.m > 5) AS m FROM (SELECT max(x) AS m FROM '~/x.parquet') AS p) AS q;
--> 10

SELECT max(p.m), max(p.m) FILTER (WHERE p.m > 50) FROM (SELECT max(x) AS m, min(x) AS n FROM '~/x.parquet') AS p;
--> 9 | NULL
