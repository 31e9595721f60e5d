//! The stages of a statement, in their order.

use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::TableReference;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{DdlStatement, LogicalPlan, ResetVariable, SetVariable, Statement as Setting};
use yeoul_dialect::settings::System;
use yeoul_dialect::{ColumnTexts, Dialect, Notices};

use super::Session;
use crate::answer::{Answer, Query};
use crate::catalog::address::{at_home, check_address};
use crate::catalog::external_tables::check_there;
use crate::changes::{Change, ChangedTable};
use crate::copy::null_keys;
use crate::copy::staged_copy::{StagedCopy, copy_in};
use crate::replaced_table::ReplacedTable;
use crate::settings::{check_set, value_at_start};
use crate::{Options, Result};

impl Session {
    /// Plans a statement and starts it. It sets `keeps_rows` before it reads rows into memory.
    pub(super) async fn start(&self, sql: &str, keeps_rows: &AtomicBool) -> Result<Answer> {
        self.files.begin_statement();
        let mut state = self.context.state();
        let dialect = Dialect::of_session(state.config_options());
        let mut statement = dialect.read(sql, &state)?;
        // They are those of the text that was written.
        let texts = ColumnTexts::of(&statement);
        let questions = dialect.honour(&mut statement, &state)?;
        if let Some(change) = Change::of(&statement) {
            let mut table = ChangedTable::find(&change, &state).await?;
            let query = dialect.plan(change.query, questions, &mut table.state).await?;
            check_there(&query, &state).await?;
            keeps_rows.store(true, Ordering::Relaxed);
            let answer = table.change(query, self.limits.clone()).await?;
            return Ok(answer.noticing(Notices::take(&self.context.state())));
        }
        let mut plan = dialect.plan(statement, questions, &mut state).await?;
        set_to_start(&mut plan, &self.options)?;
        check_settings(&plan, &self.options)?;
        check_locations(&mut plan)?;
        check_kept(&plan, &state, keeps_rows).await?;
        let (mut state, mut plan) = self.defined(plan).await?;
        // What EXECUTE runs is known only now.
        check_there(&plan, &state).await?;
        check_target(&mut plan, &mut state)?;
        let staged = StagedCopy::stage(&mut plan)?;
        let notices = Notices::take(&state);
        let answer = Query { state, logical: plan, limits: self.limits.clone(), staged }
            .start()
            .await?
            .noticing(notices);
        Ok(match texts {
            Some(texts) => answer.headed(&texts),
            None => answer,
        })
    }

    /// Carries out what defines or sets something, of which no rows are left; a query comes back as it is.
    async fn defined(&self, mut plan: LogicalPlan) -> Result<(SessionState, LogicalPlan)> {
        // Puts the table back if this fails.
        let _replaced = self.replaced_by(&plan).await;
        self.name_like_a_file(&mut plan);
        let chooses_dialect = matches!(&plan, LogicalPlan::Statement(Setting::SetVariable(set)) if set.variable == System::SETTING);
        let outcome = self.context.execute_logical_plan(plan).await?;
        if chooses_dialect {
            let state = self.context.state_ref();
            let mut state = state.write();
            let config = state.config_mut().options_mut();
            Dialect::of_session(config).configure_reading(config);
        }
        Ok(outcome.into_parts())
    }

    /// The table that a statement is going to replace.
    async fn replaced_by(&self, plan: &LogicalPlan) -> Option<ReplacedTable> {
        let LogicalPlan::Ddl(statement) = plan else { return None };
        let name = match statement {
            DdlStatement::CreateMemoryTable(table) if table.or_replace => &table.name,
            DdlStatement::CreateExternalTable(table) if table.or_replace => &table.name,
            _ => return None,
        };
        let (schema, name) = self.schema_of(name)?;
        ReplacedTable::keep(schema, &name).await
    }

    /// Lets a new view or table have the name of a file or folder: DataFusion takes that for a table which is there already.
    fn name_like_a_file(&self, plan: &mut LogicalPlan) {
        match plan {
            LogicalPlan::Ddl(DdlStatement::CreateView(view)) if !self.is_registered(&view.name) => {
                view.or_replace = true;
            }
            LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(table)) if !self.is_registered(&table.name) => {
                (table.if_not_exists, table.or_replace) = (false, true);
            }
            _ => {}
        }
    }

    /// True if a name stands for a table or view that was made in this session.
    fn is_registered(&self, name: &TableReference) -> bool {
        self.schema_of(name).is_some_and(|(schema, table)| schema.table_exist(&table))
    }
}

/// Makes `RESET` a `SET` to the value that the session was started with.
fn set_to_start(plan: &mut LogicalPlan, options: &Options) -> Result<()> {
    if let LogicalPlan::Statement(Setting::ResetVariable(ResetVariable { variable })) = plan {
        check_set(variable, options)?;
        if let Some(value) = value_at_start(variable, options)? {
            let set = SetVariable { variable: variable.clone(), value };
            *plan = LogicalPlan::Statement(Setting::SetVariable(set));
        }
    }
    Ok(())
}

/// Refuses a `SET` of what a session is started with.
fn check_settings(plan: &LogicalPlan, options: &Options) -> Result<()> {
    match plan {
        LogicalPlan::Statement(Setting::SetVariable(set)) => check_set(&set.variable, options),
        _ => Ok(()),
    }
}

/// Checks the addresses of a new external table; a path may begin at the home directory.
fn check_locations(plan: &mut LogicalPlan) -> Result<()> {
    if let LogicalPlan::Ddl(DdlStatement::CreateExternalTable(table)) = plan {
        table.locations.iter_mut().for_each(|location| *location = at_home(location).into_owned());
        table.locations.iter().try_for_each(|location| check_address(location))?;
    }
    Ok(())
}

/// Checks what a new table in memory is made of, which is read before it answers.
async fn check_kept(plan: &LogicalPlan, state: &SessionState, keeps_rows: &AtomicBool) -> Result<()> {
    if let LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(table)) = plan {
        check_there(&table.input, state).await?;
        keeps_rows.store(true, Ordering::Relaxed);
    }
    Ok(())
}

/// Checks where `COPY` writes, and has it write null keys.
fn check_target(plan: &mut LogicalPlan, state: &mut SessionState) -> Result<()> {
    if let Some(copy) = copy_in(plan) {
        copy.output_url = at_home(&copy.output_url).into_owned();
        check_address(&copy.output_url)?;
        null_keys::write(copy, state)?;
    }
    Ok(())
}
