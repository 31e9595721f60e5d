//! Statements.

use std::collections::HashSet;

use datafusion::sql::parser::{CopyToSource, CopyToStatement, ExplainStatement, Statement as AnyStatement};
use datafusion::sql::sqlparser::ast::{DropFunction, SetExpr, Statement};

use super::definition::check_schema;
use super::refused::{Clause, absent};
use super::walk::Walk;
use crate::Result;

impl Walk<'_> {
    pub(super) fn any_statement(&mut self, statement: &mut AnyStatement) -> Result<()> {
        match statement {
            AnyStatement::Statement(statement) => self.statement(statement),
            AnyStatement::CreateExternalTable(table) => self.create_external_table(table),
            AnyStatement::CopyTo(copy) => self.copy(copy),
            AnyStatement::Explain(ExplainStatement { options: _, statement }) => {
                if let AnyStatement::Statement(statement) = statement.as_ref() {
                    refuse_change(statement)?;
                }
                self.any_statement(statement)
            }
            AnyStatement::Reset(_) => Ok(()),
        }
    }

    fn copy(&mut self, copy: &mut CopyToStatement) -> Result<()> {
        let CopyToStatement { source, target: _, partitioned_by: _, stored_as, options } = copy;
        // Planning would look at the ending of the target.
        if let Some(format) = stored_as
            && self.state.get_file_format_factory(format).is_none()
        {
            return Err(Clause::CopyFormat.error());
        }
        let mut names = HashSet::new();
        if !options.iter().all(|(name, _)| names.insert(name.to_lowercase())) {
            return Err(Clause::CopyTwice.error());
        }
        match source {
            CopyToSource::Query(query) => self.query(query),
            CopyToSource::Relation(_) => Ok(()),
        }
    }

    fn statement(&mut self, statement: &mut Statement) -> Result<()> {
        match statement {
            Statement::Query(query) => {
                self.may_make_a_table = matches!(query.body.as_ref(), SetExpr::Select(_));
                self.query(query)
            }
            Statement::Insert(insert) => self.insert(insert),
            Statement::Delete(delete) => self.delete(delete),
            Statement::Update(update) => self.update(update),
            Statement::CreateTable(table) => self.create_table(table),
            Statement::CreateView(view) => self.create_view(view),
            Statement::Prepare { name: _, data_types, statement } => {
                refuse_change(statement)?;
                data_types.iter_mut().try_for_each(|data_type| self.data_type(data_type))?;
                self.statement(statement)
            }
            Statement::Execute {
                name: _,
                parameters,
                has_parentheses: _,
                // Planning refuses those.
                immediate: _,
                into: _,
                using: _,
                output: _,
                default: _,
            } => self.exprs(parameters),
            Statement::Explain {
                describe_alias: _,
                analyze: _,
                verbose: _,
                query_plan,
                estimate,
                statement,
                format: _,
                options,
            } => {
                absent(query_plan, Clause::ExplainOption)?;
                absent(estimate, Clause::ExplainOption)?;
                absent(options, Clause::ExplainOption)?;
                refuse_change(statement)?;
                self.statement(statement)
            }
            other => check(other),
        }
    }
}

/// Refuses what planning would leave out of a statement that contains no query.
fn check(statement: &Statement) -> Result<()> {
    match statement {
        Statement::Merge(_) => Err(Clause::Merge.error()),
        Statement::ShowDatabases { terse: _, history: _, show_options: _ } => {
            Err(Clause::ShowDatabases.error())
        }
        Statement::ExplainTable { describe_alias: _, hive_format, has_table_keyword: _, table_name: _ } => {
            absent(hive_format, Clause::DescribeOption)
        }
        Statement::CreateSchema {
            schema_name,
            if_not_exists: _,
            with,
            options,
            default_collate_spec,
            clone,
        } => {
            check_schema(schema_name)?;
            absent(with, Clause::SchemaOption)?;
            absent(options, Clause::SchemaOption)?;
            absent(default_collate_spec, Clause::SchemaOption)?;
            absent(clone, Clause::SchemaOption)
        }
        Statement::CreateDatabase {
            db_name: _,
            if_not_exists: _,
            location,
            managed_location,
            or_replace,
            transient,
            clone,
            data_retention_time_in_days,
            max_data_extension_time_in_days,
            external_volume,
            catalog,
            replace_invalid_characters,
            default_ddl_collation,
            storage_serialization_policy,
            comment,
            default_charset,
            default_collation,
            catalog_sync,
            catalog_sync_namespace_mode,
            catalog_sync_namespace_flatten_delimiter,
            with_tags,
            with_contacts,
        } => {
            absent(or_replace, Clause::SchemaOption)?;
            absent(transient, Clause::SchemaOption)?;
            absent(clone, Clause::SchemaOption)?;
            absent(data_retention_time_in_days, Clause::SchemaOption)?;
            absent(max_data_extension_time_in_days, Clause::SchemaOption)?;
            absent(replace_invalid_characters, Clause::SchemaOption)?;
            absent(storage_serialization_policy, Clause::SchemaOption)?;
            absent(catalog_sync_namespace_mode, Clause::SchemaOption)?;
            absent(with_tags, Clause::SchemaOption)?;
            absent(with_contacts, Clause::SchemaOption)?;
            let texts = [
                location,
                managed_location,
                external_volume,
                catalog,
                default_ddl_collation,
                comment,
                default_charset,
                default_collation,
                catalog_sync,
                catalog_sync_namespace_flatten_delimiter,
            ];
            texts.into_iter().try_for_each(|text| absent(text, Clause::SchemaOption))
        }
        // Nothing depends on what is dropped: a view keeps its plan. No files are deleted, so that there is nothing to purge.
        Statement::Drop {
            object_type: _,
            if_exists: _,
            names: _,
            cascade: _,
            restrict: _,
            purge: _,
            temporary: _,
            table: _,
        } => Ok(()),
        Statement::DropFunction(DropFunction { if_exists: _, func_desc, drop_behavior: _ }) => {
            if func_desc.len() > 1 { Err(Clause::DropSeveral.error()) } else { Ok(()) }
        }
        // Planning takes these apart itself, or refuses them: SET, SHOW, DEALLOCATE, transactions, TRUNCATE, MERGE, CREATE FUNCTION,
        // CREATE INDEX, and all that it does not know.
        _ => Ok(()),
    }
}

/// Refuses to plan a `DELETE` or `UPDATE` now and to run it later, or not at all: `changes` runs them by itself.
fn refuse_change(statement: &Statement) -> Result<()> {
    match statement {
        Statement::Delete(_) | Statement::Update(_) => Err(Clause::ChangeNested.error()),
        _ => Ok(()),
    }
}
