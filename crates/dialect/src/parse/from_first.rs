//! `FROM 'file'` alone is `SELECT * FROM 'file'`, as in DuckDB; DataFusion would plan it without columns.

use datafusion::sql::sqlparser::ast::{Select, SelectFlavor, SelectItem, WildcardAdditionalOptions};

/// Adds the `*` that a `FROM` without a `SELECT` stands for.
pub(super) fn complete(select: &mut Select) {
    if select.flavor == SelectFlavor::FromFirstNoSelect {
        select.flavor = SelectFlavor::Standard;
        select.projection = vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())];
    }
}

#[cfg(test)]
mod tests {
    use crate::parse::tests::meant;

    #[test]
    fn from_alone_takes_every_column_wherever_it_stands() {
        for (written, expected) in [
            ("FROM t", "SELECT * FROM t"),
            ("FROM t ORDER BY a LIMIT 2", "SELECT * FROM t ORDER BY a LIMIT 2"),
            ("SELECT a FROM (FROM t)", "SELECT a FROM (SELECT * FROM t)"),
            ("FROM t UNION ALL FROM u", "SELECT * FROM t UNION ALL SELECT * FROM u"),
            ("CREATE VIEW v AS FROM t", "CREATE VIEW v AS SELECT * FROM t"),
            ("COPY (FROM t) TO 'f.csv'", "COPY (SELECT * FROM t) TO f.csv"),
            ("EXPLAIN FROM t", "EXPLAIN SELECT * FROM t"),
            ("FROM t SELECT a", "FROM t SELECT a"),
        ] {
            assert_eq!(meant(written), expected, "{written}");
        }
    }
}
