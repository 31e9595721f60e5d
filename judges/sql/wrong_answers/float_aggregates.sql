-- Aggregates of floats: what leaves a frame leaves no trace, a mean far from zero costs no digits, and there is one NaN.
CREATE TABLE f AS SELECT * FROM (VALUES (1, 'NaN'::DOUBLE, 2.0e0), (2, 1, 4), (3, 2, 5), (4, 'inf', 1), (5, 3, 1), (6, 5, 4), (7, 1e20, 0), (8, 1, 1), (9, 2, 3)) AS v(i, x, y);

SELECT i, sum(x) OVER w, avg(x) OVER w FROM f WINDOW w AS (ORDER BY i ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) ORDER BY i;
--> 1 | NaN | NaN
--> 2 | NaN | NaN
--> 3 | 3.0 | 1.5
--> 4 | inf | inf
--> 5 | inf | inf
--> 6 | 8.0 | 4.0
--> 7 | 1e20 | 5e19
--> 8 | 1e20 | 5e19
--> 9 | 3.0 | 1.5

SELECT i, var_pop(x) OVER w, stddev(x) OVER w > 1, covar_pop(y, x) OVER w, corr(y, x) OVER w, regr_slope(y, x) OVER w, regr_count(y, x) OVER w FROM f WINDOW w AS (ORDER BY i ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) ORDER BY i;
--> 1 | 0.0 | NULL | 0.0 | NULL | NULL | 1
--> 2 | NaN | true | NaN | NaN | NaN | 2
--> 3 | 0.25 | false | 0.25 | 1.0 | 1.0 | 2
--> 4 | NaN | true | NaN | NaN | NaN | 2
--> 5 | NaN | true | NaN | NULL | NaN | 2
--> 6 | 1.0 | true | 1.5 | 1.0 | 1.5 | 2
--> 7 | 2.5e39 | true | -1e20 | -1.0 | -4e-20 | 2
--> 8 | 2.5e39 | true | -2.5e19 | -1.0 | -1e-20 | 2
--> 9 | 0.25 | false | 0.5 | 1.0 | 2.0 | 2

SELECT i, sum(x) OVER (ORDER BY i ROWS BETWEEN 4 PRECEDING AND 3 PRECEDING), sum(x) OVER (ORDER BY i ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING) FROM f ORDER BY i;
--> 1 | NULL | 3.0
--> 2 | NULL | inf
--> 3 | NULL | inf
--> 4 | NaN | 8.0
--> 5 | NaN | 1e20
--> 6 | 3.0 | 1e20
--> 7 | inf | 3.0
--> 8 | inf | 2.0
--> 9 | 8.0 | NULL

SELECT i, sum(x) OVER (ORDER BY i RANGE BETWEEN 1 PRECEDING AND CURRENT ROW), sum(x) OVER (ORDER BY i DESC ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING), sum(x) FILTER (WHERE i > 7) OVER (ORDER BY i ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM f WHERE i >= 7 ORDER BY i;
--> 7 | 1e20 | 1e20 | NULL
--> 8 | 1e20 | 1e20 | 1.0
--> 9 | 3.0 | 3.0 | 3.0

CREATE TABLE far AS SELECT i % 2 AS g, 1e9::DOUBLE + i % 4 / 2 AS x, 1e9::DOUBLE + i % 8 / 4 AS y FROM generate_series(0, 799) AS s(i);

SELECT g, abs(corr(x, y)) < 1e-6, round(corr(x, y + 2 * x), 6), round(stddev_pop(x), 6) FROM far GROUP BY g ORDER BY g;
--> 0 | true | 0.894427 | 0.5
--> 1 | true | 0.894427 | 0.5

SELECT abs(corr(x, y)) < 1e-6, round(corr(x, y + 2 * x), 6) FROM far;
--> true | 0.894427

CREATE TABLE b AS SELECT * FROM (VALUES (1, 'inf'::DOUBLE), (1, '-inf'), (2, 7)) AS v(g, x);

SELECT sum(x) > 5, avg(x) > 5, var_pop(x) > 5, corr(x, x) > 5, sum(DISTINCT x) > 5, avg(DISTINCT x) > 5 FROM b;
--> true | true | true | true | true | true

SELECT g, sum(x) > 8, avg(x) > 8, stddev_pop(x) > 8, regr_sxx(x, x) > 8, covar_pop(x, x) > 8 FROM b GROUP BY g ORDER BY sum(x) DESC;
--> 1 | true | true | true | true | true
--> 2 | false | false | false | false | false

SELECT max(s), count(DISTINCT s) FROM (SELECT sum(x) AS s FROM b GROUP BY g UNION ALL SELECT 'NaN'::DOUBLE) AS v;
--> NaN | 2
