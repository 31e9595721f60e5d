//! What `CREATE` and `DROP` define: tables, views, schemas, their columns and constraints.

use datafusion::sql::parser::CreateExternalTable;
use datafusion::sql::sqlparser::ast::{
    ColumnDef, ColumnOption, ColumnOptionDef, CreateTable, CreateView, SchemaName, TableConstraint,
    ViewColumnDef,
};

use super::refused::{Clause, absent};
use super::walk::Walk;
use crate::Result;

impl Walk<'_> {
    pub(super) fn create_table(&mut self, table: &mut CreateTable) -> Result<()> {
        // Planning refuses all of these but for those that are walked, the name and what to do if there is such a table.
        let CreateTable {
            or_replace: _,
            temporary: _,
            external: _,
            dynamic: _,
            global: _,
            if_not_exists: _,
            transient: _,
            volatile: _,
            iceberg: _,
            snapshot: _,
            name: _,
            columns,
            constraints,
            hive_distribution: _,
            hive_formats: _,
            table_options: _,
            file_format: _,
            location: _,
            query,
            without_rowid: _,
            like: _,
            clone: _,
            version: _,
            comment: _,
            on_commit: _,
            on_cluster: _,
            primary_key: _,
            order_by: _,
            partition_by: _,
            cluster_by: _,
            clustered_by: _,
            inherits: _,
            partition_of: _,
            for_values: _,
            strict: _,
            copy_grants: _,
            enable_schema_evolution: _,
            change_tracking: _,
            data_retention_time_in_days: _,
            max_data_extension_time_in_days: _,
            default_ddl_collation: _,
            with_aggregation_policy: _,
            with_row_access_policy: _,
            with_storage_lifecycle_policy: _,
            with_tags: _,
            external_volume: _,
            base_location: _,
            catalog: _,
            catalog_sync: _,
            storage_serialization_policy: _,
            target_lag: _,
            warehouse: _,
            refresh_mode: _,
            initialize: _,
            require_user: _,
            diststyle: _,
            distkey: _,
            sortkey: _,
            backup: _,
        } = table;
        self.columns(columns, constraints)?;
        query.as_mut().map_or(Ok(()), |query| self.query(query))
    }

    pub(super) fn create_external_table(&mut self, table: &mut CreateExternalTable) -> Result<()> {
        let CreateExternalTable {
            name: _,
            columns,
            file_type: _,
            locations: _,
            table_partition_cols: _,
            order_exprs,
            if_not_exists: _,
            or_replace: _,
            // Planning refuses TEMPORARY.
            temporary: _,
            unbounded,
            options: _,
            constraints,
        } = table;
        absent(unbounded, Clause::UnboundedTable)?;
        self.columns(columns, constraints)?;
        order_exprs.iter_mut().try_for_each(|keys| self.sort_keys(keys))
    }

    fn columns(&mut self, columns: &mut [ColumnDef], constraints: &[TableConstraint]) -> Result<()> {
        constraints.iter().try_for_each(|constraint| match constraint {
            TableConstraint::Unique(_) | TableConstraint::PrimaryKey(_) => {
                Err(Clause::UniqueKey.error_at(constraint))
            }
            // Planning refuses those.
            TableConstraint::ForeignKey(_)
            | TableConstraint::Check(_)
            | TableConstraint::Index(_)
            | TableConstraint::FulltextOrSpatial(_)
            | TableConstraint::PrimaryKeyUsingIndex(_)
            | TableConstraint::UniqueUsingIndex(_) => Ok(()),
        })?;
        columns.iter_mut().try_for_each(|column| {
            let ColumnDef { name, data_type, options } = column;
            self.data_type(data_type)?;
            options.iter_mut().try_for_each(|option| {
                let ColumnOptionDef { name: _, option } = option;
                match option {
                    ColumnOption::Null | ColumnOption::NotNull => Ok(()),
                    ColumnOption::Default(value) => self.expr(value),
                    ColumnOption::PrimaryKey(_) | ColumnOption::Unique(_) => {
                        Err(Clause::UniqueKey.error_at_name(name))
                    }
                    // Planning refuses those.
                    ColumnOption::ForeignKey(_) | ColumnOption::Check(_) => Ok(()),
                    ColumnOption::Materialized(_)
                    | ColumnOption::Ephemeral(_)
                    | ColumnOption::Alias(_)
                    | ColumnOption::DialectSpecific(_)
                    | ColumnOption::CharacterSet(_)
                    | ColumnOption::Collation(_)
                    | ColumnOption::Comment(_)
                    | ColumnOption::OnUpdate(_)
                    | ColumnOption::Generated {
                        generated_as: _,
                        sequence_options: _,
                        generation_expr: _,
                        generation_expr_mode: _,
                        generated_keyword: _,
                    }
                    | ColumnOption::Options(_)
                    | ColumnOption::Identity(_)
                    | ColumnOption::OnConflict(_)
                    | ColumnOption::Policy(_)
                    | ColumnOption::Tags(_)
                    | ColumnOption::Srid(_)
                    | ColumnOption::Invisible => Err(Clause::ColumnOption.error_at_name(name)),
                }
            })
        })
    }

    pub(super) fn create_view(&mut self, view: &mut CreateView) -> Result<()> {
        let CreateView {
            or_alter,
            or_replace: _,
            secure,
            name: _,
            name_before_not_exists: _,
            columns,
            query,
            params,
            // Planning refuses those.
            materialized: _,
            options: _,
            cluster_by: _,
            comment: _,
            with_no_schema_binding: _,
            if_not_exists: _,
            temporary: _,
            copy_grants: _,
            to: _,
        } = view;
        absent(or_alter, Clause::ViewOption)?;
        absent(secure, Clause::ViewOption)?;
        absent(params, Clause::ViewOption)?;
        for column in columns.iter() {
            // Planning refuses options.
            let ViewColumnDef { name: _, data_type, options: _ } = column;
            absent(data_type, Clause::ViewTypes)?;
        }
        self.query(query)
    }
}

/// Refuses the owner of a schema.
pub(super) fn check_schema(name: &SchemaName) -> Result<()> {
    match name {
        SchemaName::Simple(_) => Ok(()),
        SchemaName::UnnamedAuthorization(owner) | SchemaName::NamedAuthorization(_, owner) => {
            Err(Clause::SchemaOption.error_at_name(owner))
        }
    }
}
