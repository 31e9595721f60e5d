//! Columns by which a reader tells apart the groups of a query whose rows change.

use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr_common::physical_expr::is_volatile;

use super::pipeline::{LookupKind, PlanNode, Stage};
use super::planner::WINDOW_COLUMNS;
use super::query::{OutputMode, Query};

/// Groups of a query whose rows change: each row takes the place of the one before of its group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupColumns {
    /// Names of the query's columns that have one value in all rows of a group.
    pub steady: Vec<String>,
    /// Names of those that together are the group, in their order: that in which a query is written may change while its groups stay.
    pub key: Vec<String>,
    /// Names of keys that the query does not give: with some, `key` is less than the group.
    pub missing: Vec<String>,
}

/// Origin of a column of rows that change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The group's key of this number.
    Key(usize),
    /// Something that follows from the group.
    Group,
    /// Something that may change while the group stays.
    Changing,
}

/// Columns of a step's rows, with the names of the keys of their groups.
struct Traced {
    origins: Vec<Origin>,
    keys: Vec<String>,
}

impl GroupColumns {
    /// Those of a query; nothing if its rows do not change.
    pub fn of(query: &Query) -> Option<Self> {
        if query.output_mode == OutputMode::Append {
            return None;
        }
        let Traced { origins, keys } = trace(&query.pipeline.root)?;
        let fields = query.pipeline.schema.fields();
        let name = |column: usize| fields[column].name().clone();
        let steady = (0..fields.len()).filter(|column| origins[*column] != Origin::Changing).map(name);
        let places: Vec<Option<usize>> = (0..keys.len())
            .map(|key| origins.iter().position(|origin| *origin == Origin::Key(key)))
            .collect();
        let is_window = |key: usize| WINDOW_COLUMNS.contains(&keys[key].as_str());
        // The start, the end and the time of a window say the same.
        let has_window = (0..keys.len()).any(|key| is_window(key) && places[key].is_some());
        let is_missing = |key: &usize| places[*key].is_none() && !(has_window && is_window(*key));
        let mut key: Vec<String> = places.iter().flatten().map(|column| name(*column)).collect();
        key.sort_unstable();
        Some(Self {
            steady: steady.collect(),
            key,
            missing: (0..keys.len()).filter(is_missing).map(|key| keys[key].clone()).collect(),
        })
    }
}

/// Columns of what a step gives; nothing if its rows do not change.
fn trace(step: &PlanNode) -> Option<Traced> {
    match step {
        PlanNode::Scan(_) | PlanNode::Join { .. } => None,
        PlanNode::Aggregate { plan, .. } => {
            let key =
                |column: usize| if column < plan.keys.len() { Origin::Key(column) } else { Origin::Changing };
            let keys = plan.schema.fields().iter().take(plan.keys.len());
            Some(Traced {
                origins: (0..plan.schema.fields().len()).map(key).collect(),
                keys: keys.map(|field| field.name().clone()).collect(),
            })
        }
        // The function says what its columns are: keys keep their names.
        PlanNode::Keyed { plan, .. } => {
            let keys = &plan.key_fields;
            let origin = |field: &FieldRef| {
                let is_same =
                    |key: &FieldRef| key.name() == field.name() && key.data_type() == field.data_type();
                keys.iter().position(is_same).map_or(Origin::Changing, Origin::Key)
            };
            Some(Traced {
                origins: plan.schema.fields().iter().map(origin).collect(),
                keys: keys.iter().map(|field| field.name().clone()).collect(),
            })
        }
        PlanNode::Calc { input, stages } => {
            let Traced { origins, keys } = trace(input)?;
            Some(Traced { origins: stages.iter().fold(origins, through), keys })
        }
        PlanNode::Deduplicate { input, .. } => trace(input),
        PlanNode::Windows { input, with_time, .. } => {
            let mut traced = trace(input)?;
            traced.origins.extend(vec![Origin::Changing; 2 + usize::from(*with_time)]);
            Some(traced)
        }
        PlanNode::Lookup { input, plan } => {
            let Traced { origins, keys } = trace(input)?;
            let of_table = match plan.kind {
                LookupKind::Inner | LookupKind::Outer => plan.table_schema.fields().len(),
                LookupKind::LeftSemi | LookupKind::LeftAnti => 0,
            };
            let table = vec![Origin::Changing; of_table];
            let origins = if plan.is_stream_first { [origins, table] } else { [table, origins] }.concat();
            Some(Traced { origins, keys })
        }
        PlanNode::Union { inputs, schema } => {
            let traced: Vec<_> = inputs.iter().filter_map(trace).collect();
            let first = traced.first()?;
            // Groups of two inputs may have equal keys: nothing tells them apart.
            let origin = |column: usize| {
                let is_steady = |of: &Traced| of.origins[column] != Origin::Changing;
                if traced.iter().all(is_steady) { Origin::Group } else { Origin::Changing }
            };
            let keys = first.keys.clone();
            Some(Traced { origins: (0..schema.fields().len()).map(origin).collect(), keys })
        }
    }
}

/// Columns after a stage.
fn through(before: Vec<Origin>, stage: &Stage) -> Vec<Origin> {
    let Stage::Project { expressions, .. } = stage else { return before };
    expressions.iter().map(|expression| origin(expression, &before)).collect()
}

fn origin(expression: &Arc<dyn PhysicalExpr>, before: &[Origin]) -> Origin {
    if let Some(column) = expression.downcast_ref::<Column>() {
        return before[column.index()];
    }
    let mut is_steady = !is_volatile(expression);
    let visited = expression.apply(|part| {
        if let Some(column) = part.downcast_ref::<Column>() {
            is_steady &= before[column.index()] != Origin::Changing;
        }
        Ok(TreeNodeRecursion::Continue)
    });
    if is_steady && visited.is_ok() { Origin::Group } else { Origin::Changing }
}
