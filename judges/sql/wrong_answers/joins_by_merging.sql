-- A projection above a join by merging leaves the columns of the join's filter where the filter looks for them.
SET datafusion.optimizer.prefer_hash_join = false;
CREATE TABLE a AS SELECT * FROM (VALUES (0, 5, 1), (7, 5, 2), (9, 1, 2)) AS v(p, z, x);
CREATE TABLE b AS SELECT * FROM (VALUES (8, 6, 1, 100), (0, 4, 1, 101), (3, 2, 2, 200)) AS v(q, z, x, y);

SELECT a.x, b.y FROM a LEFT JOIN b ON a.x = b.x AND b.z > a.z;
--> 1 | 100
--> 2 | NULL
--> 2 | 200

SELECT a.x, b.x FROM a FULL JOIN b ON a.x = b.x AND b.z > a.z AND a.p < b.q;
--> 1 | 1
--> 2 | NULL
--> 2 | NULL
--> NULL | 1
--> NULL | 2

SELECT sum(a.x), count(b.y) FROM a LEFT JOIN b ON a.x = b.x AND b.z > a.z WHERE a.x IN (1, b.y - 198, b.x);
--> 3 | 2

-- A NaN among the keys.
CREATE TABLE one AS SELECT column1::DOUBLE AS h FROM (VALUES ('NaN'), ('1.5'), (NULL), ('-2'));

CREATE TABLE other AS SELECT column1::DOUBLE AS h FROM (VALUES ('1.5'), ('NaN'), ('NaN'));

SELECT a.h FROM one a JOIN other b ON a.h = b.h;
--> 1.5
--> NaN
--> NaN

SELECT a.h, b.h FROM one a FULL JOIN other b ON a.h = b.h AND a.h < 2;
--> 1.5 | 1.5
--> NaN | NULL
--> NULL | NULL
--> -2.0 | NULL
--> NULL | NaN
--> NULL | NaN
