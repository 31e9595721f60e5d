//! The names of the columns that a `SELECT` computes and does not name: their text, such as `1 + 2`, where DataFusion has
//! `Int64(1) + Int64(2)`. They head an answer; within the statement, and in what it makes, DataFusion's own stand.

use std::collections::HashSet;

use datafusion::arrow::datatypes::{FieldRef, Schema};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, Query, Select, SelectItem, SetExpr, SetQuantifier, Statement as Sql,
};

use super::column_sets::stands_in;

/// The texts of the columns of the outermost `SELECT`, by their places: before its first `*`, and after its last. `None` is
/// for one that has a name.
#[derive(Debug, PartialEq, Eq)]
pub struct ColumnTexts {
    before: Vec<Option<String>>,
    after: Vec<Option<String>>,
    has_wildcard: bool,
}

impl ColumnTexts {
    /// Those of a query whose columns are, in their places, what its `SELECT` says.
    pub fn of(statement: &Statement) -> Option<Self> {
        let Statement::Statement(statement) = statement else { return None };
        let Sql::Query(query) = statement.as_ref() else { return None };
        let items = &select_of(query)?.projection;
        let texts = || items.iter().map(text_of);
        let wildcard = |item: &SelectItem| {
            matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)) || stands_in(item)
        };
        let before = items.iter().position(wildcard).unwrap_or(items.len());
        let has_wildcard = before < items.len();
        // Of a struct it makes as many columns as that has fields: nobody knows then which are the wildcard's.
        if has_wildcard && items.iter().any(|item| item.to_string().to_ascii_lowercase().contains("unnest")) {
            return None;
        }
        let after = items.iter().rposition(wildcard).map_or(items.len(), |last| last + 1);
        Some(Self {
            before: texts().take(before).collect(),
            after: texts().skip(after).collect(),
            has_wildcard,
        })
    }

    /// The columns of the answer with these names. One whose text is the name of another, or differs from its own in case and
    /// blanks only, keeps its own.
    pub fn head(&self, schema: &Schema) -> Schema {
        let (fields, said) = (schema.fields(), self.before.len() + self.after.len());
        if said > fields.len() || (said < fields.len() && !self.has_wildcard) {
            return schema.clone();
        }
        let unsaid = std::iter::repeat_n(&None, fields.len() - said);
        let texts = self.before.iter().chain(unsaid).chain(&self.after);
        let mut taken: HashSet<&str> = fields.iter().map(|field| field.name().as_str()).collect();
        let mut named = Vec::with_capacity(fields.len());
        for (field, text) in fields.iter().zip(texts) {
            let text = text.as_deref().filter(|text| !is_alike(text, field.name()) && taken.insert(*text));
            named.push(match text {
                Some(text) => FieldRef::new(field.as_ref().clone().with_name(text)),
                None => FieldRef::clone(field),
            });
        }
        Schema::new_with_metadata(named, schema.metadata().clone())
    }
}

/// The `SELECT` that names the columns of a query: of several, the first.
pub(crate) fn select_of(query: &Query) -> Option<&Select> {
    if !query.pipe_operators.is_empty() {
        return None;
    }
    let mut body = query.body.as_ref();
    loop {
        body = match body {
            SetExpr::Select(select) => return Some(select),
            SetExpr::Query(query) => return select_of(query),
            SetExpr::SetOperation { left, set_quantifier, .. } if !is_by_name(*set_quantifier) => {
                left.as_ref()
            }
            _ => return None,
        };
    }
}

fn is_by_name(quantifier: SetQuantifier) -> bool {
    matches!(quantifier, SetQuantifier::ByName | SetQuantifier::AllByName | SetQuantifier::DistinctByName)
}

fn text_of(item: &SelectItem) -> Option<String> {
    let SelectItem::UnnamedExpr(expr) = item else { return None };
    let mut expr = expr;
    while let Expr::Nested(inner) = expr {
        expr = inner;
    }
    match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => None,
        expr => Some(expr.to_string()),
    }
}

fn is_alike(text: &str, other: &str) -> bool {
    let letters = |text: &str| -> String {
        text.chars().filter(|c| !c.is_whitespace()).flat_map(char::to_lowercase).collect()
    };
    letters(text) == letters(other)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field};
    use datafusion::sql::parser::DFParser;

    use super::*;

    /// What heads the answer to `sql`, whose columns have these names of DataFusion's.
    fn head(sql: &str, names: &[&str]) -> Vec<String> {
        let fields: Vec<Field> = names.iter().map(|name| Field::new(*name, DataType::Int64, true)).collect();
        let schema = Schema::new(fields);
        let statement = DFParser::parse_sql(sql).unwrap().pop_front().unwrap();
        let headed = ColumnTexts::of(&statement).map_or(schema.clone(), |texts| texts.head(&schema));
        headed.fields().iter().map(|field| field.name().clone()).collect()
    }

    #[test]
    fn what_has_no_name_is_called_by_its_text() {
        for (sql, names, expected) in [
            ("SELECT 1", vec!["Int64(1)"], vec!["1"]),
            (
                "SELECT (a+1), a, t.a, b AS c FROM t",
                vec!["t.a + Int64(1)", "a", "a", "c"],
                vec!["a + 1", "a", "a", "c"],
            ),
            (
                "SELECT COUNT(*), upper( a ) FROM t",
                vec!["count(*)", "upper(a)"],
                vec!["count(*)", "upper(a)"],
            ),
            (
                "SELECT -a, *, 'x' FROM t",
                vec!["(- t.a)", "a", "b", "Utf8(\"x\")"],
                vec!["-a", "a", "b", "'x'"],
            ),
            ("WITH t AS (SELECT 2 AS a) (SELECT 1 UNION ALL SELECT a FROM t)", vec!["Int64(1)"], vec!["1"]),
        ] {
            assert_eq!(head(sql, &names), expected, "{sql}");
        }
    }

    #[test]
    fn where_the_text_does_not_tell_the_engines_name_stays() {
        for (sql, names) in [
            // The text is the name of another column, or of another text.
            ("SELECT a+1, b AS \"a + 1\" FROM t", vec!["t.a + Int64(1)", "a + 1"]),
            // The number of columns is not that of the items.
            ("SELECT unnest(s), * FROM t", vec!["s.x", "s.y", "s"]),
            ("SELECT unnest(s) AS a, 1+1, * FROM t", vec!["s.x", "s.y", "Int64(1) + Int64(1)", "s"]),
            ("SELECT unnest(s), 1 FROM t", vec!["s.x", "s.y", "Int64(1)"]),
            ("SELECT 1, 2", vec!["x"]),
            ("SELECT 1", vec!["x", "y"]),
            ("SELECT 1 UNION BY NAME SELECT 2 AS b", vec!["Int64(1)"]),
            // What is not a query's answer.
            ("EXPLAIN SELECT 1", vec!["plan_type"]),
            ("VALUES (1)", vec!["column1"]),
            ("COPY (SELECT 1) TO 'x.csv'", vec!["count"]),
        ] {
            assert_eq!(head(sql, &names), names, "{sql}");
        }
        assert_eq!(head("SELECT 1+1, (1 + 1)", &["one", "two"]), ["1 + 1", "two"]);
    }
}
