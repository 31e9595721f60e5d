//! `FROM 'file'` alone is `SELECT * FROM 'file'`, as in DuckDB; DataFusion would plan it without a column.

use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{
    Select, SelectFlavor, SelectItem, VisitMut, VisitorMut, WildcardAdditionalOptions,
};

/// Gives each `FROM` without a `SELECT` the columns that it stands for.
pub(crate) fn complete(statement: &mut Statement) {
    let ControlFlow::Continue(()) = match statement {
        Statement::Statement(statement) => statement.visit(&mut Completer),
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => query.visit(&mut Completer),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        Statement::Explain(explain) => {
            complete(&mut explain.statement);
            ControlFlow::Continue(())
        }
        Statement::CreateExternalTable(_) | Statement::Reset(_) => ControlFlow::Continue(()),
    };
}

struct Completer;

impl VisitorMut for Completer {
    type Break = Infallible;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Infallible> {
        if select.flavor == SelectFlavor::FromFirstNoSelect {
            select.flavor = SelectFlavor::Standard;
            select.projection = vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())];
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParser;

    use super::*;

    #[test]
    fn from_alone_takes_every_column_wherever_it_stands() {
        for (written, meant) in [
            ("FROM t", "SELECT * FROM t"),
            ("FROM t ORDER BY a LIMIT 2", "SELECT * FROM t ORDER BY a LIMIT 2"),
            ("SELECT a FROM (FROM t)", "SELECT a FROM (SELECT * FROM t)"),
            ("FROM t UNION ALL FROM u", "SELECT * FROM t UNION ALL SELECT * FROM u"),
            ("CREATE VIEW v AS FROM t", "CREATE VIEW v AS SELECT * FROM t"),
            ("COPY (FROM t) TO 'f.csv'", "COPY (SELECT * FROM t) TO f.csv"),
            ("EXPLAIN FROM t", "EXPLAIN SELECT * FROM t"),
            ("FROM t SELECT a", "FROM t SELECT a"),
        ] {
            let mut statement = DFParser::parse_sql(written).unwrap().pop_front().unwrap();
            complete(&mut statement);
            assert_eq!(statement.to_string(), meant, "{written}");
        }
    }
}
