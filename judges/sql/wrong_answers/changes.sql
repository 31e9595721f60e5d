-- DELETE and UPDATE whose conditions a row alone does not decide: DataFusion dropped them, and changed every row.

CREATE TABLE a (x INT);
INSERT INTO a VALUES (1), (2);
DELETE FROM a WHERE x IN (SELECT 1);
--> 1
SELECT x FROM a;
--> 2
INSERT INTO a VALUES (1), (3), (NULL);
DELETE FROM a WHERE EXISTS (SELECT 1 FROM a AS b WHERE b.x > a.x);
--> 2
SELECT x FROM a;
--> 3
--> NULL
DELETE FROM a WHERE EXISTS (SELECT 1 WHERE false);
--> 0
DELETE FROM a WHERE NOT EXISTS (SELECT 1 FROM a AS b WHERE b.x = a.x);
--> 1
SELECT x FROM a;
--> 3

-- NOT IN with a null is never true.
INSERT INTO a VALUES (4), (5);
DELETE FROM a WHERE x NOT IN (SELECT * FROM (VALUES (4), (NULL)) AS v(n));
--> 0
DELETE FROM a WHERE x NOT IN (SELECT 4);
--> 2
SELECT x FROM a;
--> 4

-- A value, correlated or not, in the condition and in SET.
CREATE TABLE t AS SELECT * FROM (VALUES (1, 10), (2, 20), (3, NULL)) AS v(k, v);
CREATE TABLE s AS SELECT * FROM (VALUES (1, 100), (1, 50), (2, 200), (9, 900)) AS v(k, w);
UPDATE t SET v = (SELECT max(w) FROM s WHERE s.k = t.k);
--> 3
SELECT k, v FROM t;
--> 1 | 100
--> 2 | 200
--> 3 | NULL
UPDATE t SET v = v + 1 WHERE v < (SELECT avg(v) FROM t);
--> 1
SELECT k, v FROM t;
--> 1 | 101
--> 2 | 200
--> 3 | NULL
UPDATE t SET v = 0 WHERE k IN (SELECT k FROM s) AND v > 150;
--> 1
UPDATE t SET k = v, v = k WHERE k = 1;
--> 1
SELECT k, v FROM t;
--> 101 | 1
--> 2 | 0
--> 3 | NULL
UPDATE t SET (k, v) = (1, 10) WHERE k = 101;
--> 1
UPDATE t SET v = NULL WHERE v = NULL;
--> 0
DELETE FROM t AS d USING s WHERE d.k = s.k AND s.w > 60;
--> 2
SELECT k, v FROM t;
--> 3 | NULL

-- UPDATE … FROM: one row for each, or an error that changes nothing.
INSERT INTO t VALUES (1, 1), (2, 2);
UPDATE t SET v = s.w FROM s WHERE s.k = t.k;
--> refused: matches several rows
SELECT k, v FROM t ORDER BY k;
--> 1 | 1
--> 2 | 2
--> 3 | NULL
UPDATE t AS d SET v = m.w FROM (SELECT k, min(w) AS w FROM s GROUP BY k) AS m WHERE m.k = d.k;
--> 2
UPDATE t SET v = s.w + o.w FROM s JOIN s AS o ON s.k = o.k - 8 AND s.w = 50 WHERE t.k = s.k;
--> 1
SELECT k, v FROM t ORDER BY k;
--> 1 | 950
--> 2 | 200
--> 3 | NULL

-- An error half-way changes nothing.
UPDATE t SET v = 1 / (k - 2);
--> refused: ivide by zero
SELECT k, v FROM t ORDER BY k;
--> 1 | 950
--> 2 | 200
--> 3 | NULL
CREATE TABLE strict (x INT NOT NULL, y INT);
INSERT INTO strict VALUES (1, 1), (2, NULL);
UPDATE strict SET x = y;
--> refused: NOT NULL
SELECT x, y FROM strict ORDER BY x;
--> 1 | 1
--> 2 | NULL

-- Only the rows that are updated are computed.
UPDATE strict SET y = 10 / (x - 2) WHERE x <> 2;
--> 1
SELECT y FROM strict WHERE x = 1;
--> -10

-- Clauses.
DELETE FROM t LIMIT 1;
--> refused: LIMIT
DELETE FROM t WHERE k = 1 RETURNING k;
--> refused: RETURNING
UPDATE t SET v = 1, v = 2;
--> refused: set twice
UPDATE t SET s.v = 1;
--> refused: SET of a column of another table
UPDATE t SET nothing = 1;
--> refused: there is no column 'nothing'
EXPLAIN DELETE FROM t;
--> refused: EXPLAIN
PREPARE p AS DELETE FROM t;
--> refused: PREPARE
SELECT count(*) FROM t;
--> 3
DELETE FROM nothing;
--> refused: there is no table 'nothing'
COPY t TO '~/t.parquet';
DELETE FROM '~/t.parquet';
--> refused: cannot be changed
CREATE VIEW v AS SELECT * FROM t;
DELETE FROM v;
--> refused: cannot be changed
DELETE FROM t;
--> 3
DELETE FROM t;
--> 0
SELECT count(*) FROM t;
--> 0
INSERT INTO t VALUES (7, 7);
UPDATE public.t SET V = K + 1 WHERE public.t.k = 7;
--> 1
SELECT * FROM t;
--> 7 | 8

-- Simplified to one branch, whose type is not the column's.
CREATE TABLE prices(f DECIMAL(9, 2), g TIMESTAMP) AS VALUES (1.50, TIMESTAMP '2024-01-01 00:00:00');

UPDATE prices SET f = CASE WHEN CAST(NULL AS BOOLEAN) IS NOT FALSE THEN f ELSE 0.00 END, g = CASE WHEN CAST(NULL AS BOOLEAN) IS FALSE THEN g ELSE TIMESTAMP '2024-01-02 00:00:00' END;
--> 1

SELECT f, g FROM prices;
--> 1.50 | 2024-01-02T00:00:00
