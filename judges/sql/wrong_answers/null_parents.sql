-- What lies under a null is not seen: CASE and nullif mark a struct, list or map, and its fields are null with it.
COPY (SELECT id, CASE WHEN id % 3 = 0 THEN NULL ELSE named_struct('city', 'c' || id, 'zip', id) END AS addr, MAP {'color': 'k' || id} AS props,
  [id, id + 1] AS l FROM generate_series(1, 6) AS t(id)) TO '~/s.parquet';

SELECT id, (CASE WHEN id % 2 = 0 THEN addr END)['city'] AS c FROM '~/s.parquet' ORDER BY id;
--> 1 | NULL
--> 2 | c2
--> 3 | NULL
--> 4 | c4
--> 5 | NULL
--> 6 | NULL

SELECT id FROM (SELECT id, CASE WHEN id % 2 = 0 THEN addr END AS a FROM '~/s.parquet') q WHERE a['city'] IS NULL ORDER BY id;
--> 1
--> 3
--> 5
--> 6

SELECT max((CASE WHEN id < 3 THEN addr END)['zip']) FROM '~/s.parquet';
--> 2

SELECT id, (CASE WHEN id % 2 = 0 THEN props END)['color'] AS c FROM '~/s.parquet' ORDER BY id;
--> 1 | NULL
--> 2 | k2
--> 3 | NULL
--> 4 | k4
--> 5 | NULL
--> 6 | k6

SELECT count(a), count(b) FROM (SELECT unnest(nullif(addr, addr)) FROM '~/s.parquet') AS q(a, b);
--> 0 | 0

SELECT nullif(addr, addr)['city'] AS c, nullif(l, l)[1] AS e FROM '~/s.parquet' WHERE id = 1;
--> NULL | NULL

CREATE TABLE kept AS SELECT id, CASE WHEN id > 4 THEN addr END AS a FROM '~/s.parquet';

SELECT sum(a['zip']) FROM kept;
--> 5

SELECT (CASE WHEN b THEN named_struct('x', named_struct('y', 7)) END)['x']['y'] AS y FROM (VALUES (true), (false)) AS t(b);
--> 7
--> NULL
