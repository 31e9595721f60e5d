//! Names that keep their letters. DataFusion takes names without quotes in small letters unless it is told not to, and what looks at a
//! statement here compares them so. Where names are as they are written, each gets quotes, which say just that.

use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    ExceptSelectItem, ExcludeSelectItem, Expr, Ident, JoinConstraint, ObjectName, ObjectNamePart, Query,
    RenameSelectItem, Select, SelectItem, SelectItemQualifiedWildcardKind, TableAlias, TableFactor,
    VisitorMut, WildcardAdditionalOptions,
};

use super::join_mark::constraint_of;
use crate::parse::visit::visit;

/// Gives quotes to the names of tables, columns and queries in a statement.
pub(crate) fn quote_names(statement: &mut Statement) {
    each_name(statement, &mut |name| name.quote_style = name.quote_style.or(Some('"')));
}

/// Visits the names of tables, columns and queries in a statement.
pub(crate) fn each_name(statement: &mut Statement, visitor: &mut dyn FnMut(&mut Ident)) {
    visit(statement, &mut Names(visitor));
}

struct Names<'a>(&'a mut dyn FnMut(&mut Ident));

impl Names<'_> {
    fn parts(&mut self, name: &mut ObjectName) {
        for part in &mut name.0 {
            if let ObjectNamePart::Identifier(name) = part {
                (self.0)(name);
            }
        }
    }

    fn alias(&mut self, alias: &mut TableAlias) {
        (self.0)(&mut alias.name);
        alias.columns.iter_mut().for_each(|column| (self.0)(&mut column.name));
    }

    fn wildcard(&mut self, options: &mut WildcardAdditionalOptions) {
        match &mut options.opt_exclude {
            Some(ExcludeSelectItem::Single(name)) => self.parts(name),
            Some(ExcludeSelectItem::Multiple(names)) => names.iter_mut().for_each(|name| self.parts(name)),
            None => {}
        }
        if let Some(ExceptSelectItem { first_element, additional_elements }) = &mut options.opt_except {
            std::iter::once(first_element).chain(additional_elements).for_each(&mut *self.0);
        }
        for item in options.opt_replace.iter_mut().flat_map(|replace| &mut replace.items) {
            (self.0)(&mut item.column_name);
        }
        let renamed = match &mut options.opt_rename {
            Some(RenameSelectItem::Single(item)) => std::slice::from_mut(item),
            Some(RenameSelectItem::Multiple(items)) => items,
            None => &mut [],
        };
        for item in renamed {
            (self.0)(&mut item.ident);
            (self.0)(&mut item.alias);
        }
        options.opt_alias.iter_mut().for_each(&mut *self.0);
    }
}

impl VisitorMut for Names<'_> {
    type Break = Infallible;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Infallible> {
        for cte in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            self.alias(&mut cte.alias);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Infallible> {
        for item in &mut select.projection {
            match item {
                SelectItem::ExprWithAlias { alias, .. } => (self.0)(alias),
                SelectItem::ExprWithAliases { aliases, .. } => aliases.iter_mut().for_each(&mut *self.0),
                SelectItem::QualifiedWildcard(kind, options) => {
                    if let SelectItemQualifiedWildcardKind::ObjectName(name) = kind {
                        self.parts(name);
                    }
                    self.wildcard(options);
                }
                SelectItem::Wildcard(options) => self.wildcard(options),
                SelectItem::UnnamedExpr(_) => {}
            }
        }
        for join in select.from.iter_mut().flat_map(|tables| &mut tables.joins) {
            if let Some(JoinConstraint::Using(names)) = constraint_of(&mut join.join_operator) {
                names.iter_mut().for_each(|name| self.parts(name));
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Infallible> {
        match factor {
            TableFactor::Table { name, alias, args, .. } => {
                if args.is_none() {
                    self.parts(name);
                }
                alias.iter_mut().for_each(|alias| self.alias(alias));
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                for join in &mut table_with_joins.joins {
                    if let Some(JoinConstraint::Using(names)) = constraint_of(&mut join.join_operator) {
                        names.iter_mut().for_each(|name| self.parts(name));
                    }
                }
                alias.iter_mut().for_each(|alias| self.alias(alias));
            }
            TableFactor::Derived { alias, .. }
            | TableFactor::TableFunction { alias, .. }
            | TableFactor::Function { alias, .. }
            | TableFactor::UNNEST { alias, .. } => alias.iter_mut().for_each(|alias| self.alias(alias)),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Infallible> {
        match expr {
            Expr::Identifier(name) => (self.0)(name),
            Expr::CompoundIdentifier(parts) => parts.iter_mut().for_each(&mut *self.0),
            Expr::QualifiedWildcard(name, _) => self.parts(name),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParser;

    use super::*;

    #[test]
    fn names_get_quotes_and_functions_do_not() {
        let sql = "WITH Q AS (SELECT A.Id, Count(*) AS N FROM Tab AS A JOIN B USING (Id) GROUP BY A.Id) \
                   SELECT Q.*, * EXCLUDE (N), Upper(X) FROM Q";
        let mut statement = DFParser::parse_sql(sql).unwrap().pop_front().unwrap();
        quote_names(&mut statement);
        assert_eq!(
            statement.to_string(),
            "WITH \"Q\" AS (SELECT \"A\".\"Id\", Count(*) AS \"N\" FROM \"Tab\" AS \"A\" JOIN \"B\" USING(\"Id\") \
             GROUP BY \"A\".\"Id\") SELECT \"Q\".*, * EXCLUDE (\"N\"), Upper(\"X\") FROM \"Q\""
        );
    }
}
