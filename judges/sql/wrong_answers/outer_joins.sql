-- What is constant on a side of an outer join is not so above it, and conditions without columns count.
COPY (VALUES (1, true), (2, true)) TO '~/x.parquet';
COPY (VALUES (1, true), (2, false)) TO '~/y.parquet';

SELECT x.v FROM (SELECT 7 AS v, column2 AS e FROM '~/x.parquet') AS x FULL JOIN '~/y.parquet' AS y ON x.e = y.column2 ORDER BY x.v DESC NULLS FIRST LIMIT 1;
--> NULL

SELECT x.v FROM (SELECT 7 AS v, column2 AS e FROM '~/x.parquet') AS x RIGHT JOIN '~/y.parquet' AS y ON x.e = y.column2 ORDER BY x.v DESC NULLS FIRST LIMIT 1;
--> NULL

SELECT y.column1, x.k FROM '~/y.parquet' AS y LEFT JOIN (SELECT column1 AS k, column2 AS e FROM '~/x.parquet' WHERE column1 = 2) AS x ON x.e = y.column2 ORDER BY x.k NULLS FIRST, y.column1;
--> 2 | NULL
--> 1 | 2

SELECT x.column1, y.column1 FROM '~/x.parquet' AS x FULL JOIN '~/y.parquet' AS y ON x.column1 = y.column1 AND EXISTS (SELECT 1 FROM '~/x.parquet' WHERE column1 = 9) ORDER BY 1, 2;
--> 1 | NULL
--> 2 | NULL
--> NULL | 1
--> NULL | 2

SET datafusion.optimizer.prefer_hash_join = false;

SELECT x.column1, y.column1 FROM '~/x.parquet' AS x FULL JOIN '~/y.parquet' AS y ON x.column1 = y.column1 AND EXISTS (SELECT 1 FROM '~/x.parquet' WHERE column1 = 9) ORDER BY 1, 2;
--> 1 | NULL
--> 2 | NULL
--> NULL | 1
--> NULL | 2

SELECT x.column1, y.column1 FROM '~/x.parquet' AS x LEFT JOIN '~/y.parquet' AS y ON x.column1 = y.column1 AND '' IN (SELECT 'a' FROM '~/x.parquet') ORDER BY 1;
--> 1 | NULL
--> 2 | NULL
