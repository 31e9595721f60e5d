//! What stands in `FROM`: tables, subqueries, table functions, joins.

use std::mem;

use datafusion::sql::sqlparser::ast::{
    FunctionArg, Join, JoinConstraint, JoinOperator, ObjectName, TableAlias, TableAliasColumnDef,
    TableFactor, TableFunctionArgs, TableSampleKind, TableWithJoins,
};

use super::refused::{Clause, absent};
use super::sample;
use super::walk::Walk;
use crate::Result;

impl Walk<'_> {
    pub(super) fn table_with_joins(&mut self, table: &mut TableWithJoins) -> Result<()> {
        let TableWithJoins { relation, joins } = table;
        self.table_factor(relation)?;
        joins.iter_mut().try_for_each(|join| self.join(join))
    }

    pub(super) fn join(&mut self, join: &mut Join) -> Result<()> {
        let Join { relation, global, join_operator } = join;
        absent(global, Clause::GlobalJoin)?;
        self.table_factor(relation)?;
        match join_operator {
            // `planning::merged_join` refuses one without a common column.
            JoinOperator::Join(JoinConstraint::Natural)
            | JoinOperator::Inner(JoinConstraint::Natural)
            | JoinOperator::Left(JoinConstraint::Natural)
            | JoinOperator::LeftOuter(JoinConstraint::Natural)
            | JoinOperator::Right(JoinConstraint::Natural)
            | JoinOperator::RightOuter(JoinConstraint::Natural)
            | JoinOperator::FullOuter(JoinConstraint::Natural) => Ok(()),
            JoinOperator::Join(constraint)
            | JoinOperator::Inner(constraint)
            | JoinOperator::Left(constraint)
            | JoinOperator::LeftOuter(constraint)
            | JoinOperator::Right(constraint)
            | JoinOperator::RightOuter(constraint)
            | JoinOperator::FullOuter(constraint)
            | JoinOperator::LeftSemi(constraint)
            | JoinOperator::RightSemi(constraint)
            | JoinOperator::LeftAnti(constraint)
            | JoinOperator::RightAnti(constraint) => self.join_constraint(constraint, relation),
            // Planning refuses a condition.
            JoinOperator::CrossJoin(_) => Ok(()),
            // Planning refuses those.
            JoinOperator::Semi(_)
            | JoinOperator::Anti(_)
            | JoinOperator::CrossApply
            | JoinOperator::OuterApply
            | JoinOperator::AsOf { match_condition: _, constraint: _ }
            | JoinOperator::StraightJoin(_)
            | JoinOperator::ArrayJoin
            | JoinOperator::LeftArrayJoin
            | JoinOperator::InnerArrayJoin => Ok(()),
        }
    }

    fn join_constraint(&mut self, constraint: &mut JoinConstraint, right: &TableFactor) -> Result<()> {
        match constraint {
            JoinConstraint::On(condition) => self.expr(condition),
            JoinConstraint::Using(_) => Ok(()),
            JoinConstraint::Natural => {
                self.questions.about_common_columns(constraint, right);
                Ok(())
            }
            JoinConstraint::None => Err(Clause::JoinWithoutCondition.error_at(right)),
        }
    }

    pub(super) fn table_alias(&mut self, alias: &mut TableAlias) -> Result<()> {
        let TableAlias { explicit: _, name: _, columns, at } = alias;
        absent(at, Clause::AliasAt)?;
        columns.iter().try_for_each(|column| {
            let TableAliasColumnDef { name: _, data_type } = column;
            absent(data_type, Clause::AliasTypes)
        })
    }

    fn optional_alias(&mut self, alias: &mut Option<TableAlias>) -> Result<()> {
        alias.as_mut().map_or(Ok(()), |alias| self.table_alias(alias))
    }

    pub(super) fn table_factor(&mut self, factor: &mut TableFactor) -> Result<()> {
        let sampled = self.whole_table(factor)?;
        match sampled {
            Some((sample, alias)) => sample::honour(factor, sample, alias),
            None => Ok(()),
        }
    }

    /// Walks a table as if it were taken whole. What sample of it is to be taken, and its name then.
    fn whole_table(&mut self, factor: &mut TableFactor) -> Result<Option<Sampled>> {
        let sampled = match factor {
            TableFactor::Table {
                name,
                alias,
                args,
                with_hints,
                version,
                with_ordinality,
                partitions,
                json_path,
                sample,
                index_hints,
            } => {
                absent(with_hints, Clause::TableHints)?;
                absent(version, Clause::TableVersion)?;
                absent(with_ordinality, Clause::Ordinality)?;
                absent(partitions, Clause::TablePartitions)?;
                absent(json_path, Clause::TablePath)?;
                absent(index_hints, Clause::IndexHints)?;
                self.optional_alias(alias)?;
                if let Some(TableFunctionArgs { args, settings }) = args {
                    absent(settings, Clause::FunctionSettings)?;
                    // Planning refuses named ones.
                    self.arguments(args)?;
                }
                sample.take().map(|sample| (sample, alias.take().or_else(|| alias_of(name))))
            }
            TableFactor::Derived { lateral, subquery, alias, sample } => {
                self.optional_alias(alias)?;
                if *lateral {
                    self.inner_query(subquery)?;
                } else {
                    let windows = mem::take(&mut self.windows);
                    let outcome = self.query(subquery);
                    self.windows = windows;
                    outcome?;
                }
                sample.take().map(|sample| (sample, alias.take()))
            }
            TableFactor::Function { lateral: _, name: _, args, with_ordinality, alias } => {
                absent(with_ordinality, Clause::Ordinality)?;
                self.optional_alias(alias)?;
                let is_named = |arg: &&FunctionArg| !matches!(arg, FunctionArg::Unnamed(_));
                if let Some(argument) = args.iter().find(is_named) {
                    return Err(Clause::NamedTableArguments.error_at(argument));
                }
                self.arguments(args)?;
                None
            }
            // Planning refuses WITH OFFSET and WITH ORDINALITY.
            TableFactor::UNNEST {
                alias,
                array_exprs,
                with_offset: _,
                with_offset_alias: _,
                with_ordinality: _,
            } => {
                self.optional_alias(alias)?;
                self.exprs(array_exprs)?;
                None
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                self.optional_alias(alias)?;
                self.table_with_joins(table_with_joins)?;
                None
            }
            // Planning refuses those.
            TableFactor::TableFunction { expr: _, alias: _ }
            | TableFactor::JsonTable { json_expr: _, json_path: _, columns: _, alias: _ }
            | TableFactor::OpenJsonTable { json_expr: _, json_path: _, columns: _, alias: _ }
            | TableFactor::Pivot {
                table: _,
                aggregate_functions: _,
                value_column: _,
                value_source: _,
                default_on_null: _,
                alias: _,
            }
            | TableFactor::Unpivot { table: _, value: _, name: _, columns: _, null_inclusion: _, alias: _ }
            | TableFactor::MatchRecognize {
                table: _,
                partition_by: _,
                order_by: _,
                measures: _,
                rows_per_match: _,
                after_match_skip: _,
                pattern: _,
                symbols: _,
                alias: _,
            }
            | TableFactor::XmlTable { namespaces: _, row_expression: _, passing: _, columns: _, alias: _ }
            | TableFactor::SemanticView {
                name: _,
                dimensions: _,
                metrics: _,
                facts: _,
                where_clause: _,
                alias: _,
            } => None,
        };
        Ok(sampled)
    }
}

/// A sample that is to be taken, and the name of the table that it makes.
type Sampled = (TableSampleKind, Option<TableAlias>);

/// The name by which a query knows a table without an alias.
fn alias_of(name: &ObjectName) -> Option<TableAlias> {
    let name = name.0.last()?.as_ident()?.clone();
    Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None })
}
