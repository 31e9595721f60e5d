//! Marks of the joins whose columns merge: each is put into parentheses of its own, whose alias is the mark. It is taken off when the join
//! is planned.

use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion::sql::parser::{DFParser, Statement};
use datafusion::sql::sqlparser::ast::{
    Join, JoinConstraint, JoinOperator, Query, Select, SetExpr, Statement as Sql, TableAlias, TableFactor,
    TableWithJoins, VisitorMut,
};

use crate::names::scopes::quoted;
use crate::parse::visit::visit;

/// The number of a marked join within its statement, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct JoinId(pub(crate) usize);

/// What no name in SQL begins with.
const PREFIX: &str = "\u{1}join ";

impl JoinId {
    fn alias(self) -> TableAlias {
        let name = quoted(format!("{PREFIX}{}", self.0));
        TableAlias { explicit: true, name, columns: Vec::new(), at: None }
    }

    /// The mark of what stands in a `FROM`.
    pub(crate) fn of(factor: &TableFactor) -> Option<(Self, &TableWithJoins)> {
        let TableFactor::NestedJoin { table_with_joins, alias: Some(alias) } = factor else { return None };
        let number = alias.name.value.strip_prefix(PREFIX)?.parse().ok()?;
        Some((Self(number), table_with_joins.as_ref()))
    }
}

/// The marks in a list of tables that are in no other's parentheses.
pub(crate) fn outermost(tables: &TableWithJoins) -> Vec<JoinId> {
    let factors = std::iter::once(&tables.relation).chain(tables.joins.iter().map(|join| &join.relation));
    let marks = factors.flat_map(|factor| match (JoinId::of(factor), factor) {
        (Some((id, _)), _) => vec![id],
        (None, TableFactor::NestedJoin { table_with_joins, alias: None }) => outermost(table_with_joins),
        _ => Vec::new(),
    });
    marks.collect()
}

/// The constraint of a join with rows of both sides.
pub(crate) fn constraint_of(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint) => Some(constraint),
        _ => None,
    }
}

/// Marks the joins of a statement whose columns merge. False if there is none.
pub(crate) fn mark(statement: &mut Statement) -> bool {
    let mut marks = Marks { joins: 0 };
    visit(statement, &mut marks);
    marks.joins > 0
}

struct Marks {
    joins: usize,
}

impl VisitorMut for Marks {
    type Break = Infallible;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Infallible> {
        for tables in &mut select.from {
            self.in_tables(tables);
        }
        ControlFlow::Continue(())
    }
}

impl Marks {
    fn in_tables(&mut self, tables: &mut TableWithJoins) {
        self.in_factor(&mut tables.relation);
        let joins = std::mem::take(&mut tables.joins);
        for mut join in joins {
            self.in_factor(&mut join.relation);
            let is_merged = merges(&mut join);
            tables.joins.push(join);
            if is_merged {
                self.joins += 1;
                let alias = Some(JoinId(self.joins).alias());
                let inner = std::mem::replace(tables, nothing());
                tables.relation = TableFactor::NestedJoin { table_with_joins: Box::new(inner), alias };
            }
        }
    }

    fn in_factor(&mut self, factor: &mut TableFactor) {
        let TableFactor::NestedJoin { table_with_joins, alias } = factor else { return };
        match alias {
            None => self.in_tables(table_with_joins),
            // Under an alias only the columns of a `*` are left.
            Some(alias) if has_merged(table_with_joins) => {
                let alias = Some(alias.clone());
                if let Some(query) = all_of(table_with_joins.as_ref().clone()) {
                    *factor = TableFactor::Derived {
                        lateral: false,
                        subquery: Box::new(query),
                        alias,
                        sample: None,
                    };
                }
            }
            Some(_) => {}
        }
    }
}

fn merges(join: &mut Join) -> bool {
    matches!(constraint_of(&mut join.join_operator), Some(JoinConstraint::Using(_) | JoinConstraint::Natural))
}

fn has_merged(tables: &mut TableWithJoins) -> bool {
    let is_nested = |factor: &mut TableFactor| match factor {
        TableFactor::NestedJoin { table_with_joins, alias: None } => has_merged(table_with_joins),
        _ => false,
    };
    is_nested(&mut tables.relation)
        || tables.joins.iter_mut().any(|join| merges(join) || is_nested(&mut join.relation))
}

/// A list of tables to put another one into its place.
fn nothing() -> TableWithJoins {
    let alias = Some(JoinId(0).alias());
    TableWithJoins {
        relation: TableFactor::UNNEST {
            alias,
            array_exprs: Vec::new(),
            with_offset: false,
            with_offset_alias: None,
            with_ordinality: false,
        },
        joins: Vec::new(),
    }
}

/// `SELECT * FROM tables`.
fn all_of(tables: TableWithJoins) -> Option<Query> {
    let parsed = DFParser::parse_sql("SELECT * FROM t").ok()?.pop_front()?;
    let Statement::Statement(parsed) = parsed else { return None };
    let Sql::Query(mut query) = *parsed else { return None };
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    select.from = vec![tables];
    Some(*query)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(sql: &str) -> String {
        let mut statement = DFParser::parse_sql(sql).unwrap().pop_front().unwrap();
        let is_marked = mark(&mut statement);
        let text = statement.to_string().replace(PREFIX, "");
        assert_eq!(is_marked, text != sql, "{sql}");
        text
    }

    #[test]
    fn each_join_that_merges_columns_is_marked() {
        for (sql, expected) in [
            ("SELECT x FROM a JOIN b USING(x)", "SELECT x FROM (a JOIN b USING(x)) AS \"1\""),
            (
                "SELECT x FROM a NATURAL FULL JOIN b JOIN c ON true LEFT JOIN d USING(x)",
                "SELECT x FROM ((a NATURAL FULL JOIN b) AS \"1\" JOIN c ON true LEFT JOIN d USING(x)) AS \"2\"",
            ),
            (
                "SELECT 1 FROM a, (b RIGHT JOIN c USING(x) JOIN d ON true), e",
                "SELECT 1 FROM a, ((b RIGHT JOIN c USING(x)) AS \"1\" JOIN d ON true), e",
            ),
            (
                "SELECT 1 FROM (a JOIN b USING(x)) AS j",
                "SELECT 1 FROM (SELECT * FROM (a JOIN b USING(x)) AS \"1\") AS j",
            ),
            (
                "SELECT (SELECT x FROM a JOIN b USING(x)) FROM (SELECT 1 FROM c JOIN d USING(y)) AS q",
                "SELECT (SELECT x FROM (a JOIN b USING(x)) AS \"1\") FROM (SELECT 1 FROM (c JOIN d USING(y)) AS \"2\") AS q",
            ),
            ("SELECT 1 FROM a JOIN b ON true CROSS JOIN c", "SELECT 1 FROM a JOIN b ON true CROSS JOIN c"),
            ("SELECT 1 FROM a LEFT SEMI JOIN b USING(x)", "SELECT 1 FROM a LEFT SEMI JOIN b USING(x)"),
        ] {
            assert_eq!(marked(sql), expected, "{sql}");
        }
    }

    #[test]
    fn the_outermost_marks_of_a_from_are_those_that_hold_all_others() {
        let sql = "SELECT 1 FROM a JOIN b USING(x) JOIN c USING(x) JOIN (d JOIN e USING(y)) ON true, f";
        let mut statement = DFParser::parse_sql(sql).unwrap().pop_front().unwrap();
        assert!(mark(&mut statement));
        struct Outermost(Vec<Vec<JoinId>>);
        impl VisitorMut for Outermost {
            type Break = Infallible;
            fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Infallible> {
                self.0.extend(select.from.iter().map(outermost));
                ControlFlow::Continue(())
            }
        }
        let mut found = Outermost(Vec::new());
        visit(&mut statement, &mut found);
        assert_eq!(found.0, [vec![JoinId(2), JoinId(3)], vec![]]);
    }
}
