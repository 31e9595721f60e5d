//! The decision which repeated subplans are shared, and the physical plan.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchemaRef, Result};
use datafusion::execution::SessionState;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Explain, LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};
use tracing::debug;
use yeoul_base::ErrorKind;
use yeoul_dialect::settings::Switch;

use super::mention::{self, Mention, SubplanId};
use super::readers::{self, Reader};
use super::repeats::Repeats;
use crate::Error;
use crate::operators::shared_subplan::{SharedSubplan, SharedSubplanExec};
use crate::optimizer::estimates::{SHARED, of_plan, work};

/// The most time that is spent on decisions. What is not decided by then is not shared.
const TIME_MAX: Duration = Duration::from_millis(300);
/// The share of the estimated work without sharing below which a subplan is shared.
const GAIN: f64 = 0.9;
/// The most different readers of a subplan that are planned to estimate their work; others are taken for their mean.
const PLANNED_MAX: usize = 8;

/// The planner of queries that may share subplans.
#[derive(Debug)]
pub(crate) struct SharingPlanner;

#[async_trait]
impl QueryPlanner for SharingPlanner {
    async fn create_physical_plan(
        &self,
        logical: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(repeats) = Repeats::carried_by(logical)? else {
            return DefaultPhysicalPlanner::default().create_physical_plan(logical, session).await;
        };
        let state = session.as_any().downcast_ref::<SessionState>().ok_or_else(|| {
            Error::new(ErrorKind::Internal, "subplans are shared in a session of their own only")
        })?;
        let mut state = state.clone();
        Switch::ShareSubplans.set(state.config_mut().options_mut(), false)?;
        let sharing = Sharing { state: &state, subplans: &repeats.subplans };
        let (query, explain) = match logical {
            LogicalPlan::Explain(explain) => (explain.plan.as_ref(), Some(explain)),
            logical => (logical, None),
        };
        let around = |plan: LogicalPlan| match explain {
            Some(explain) => LogicalPlan::Explain(Explain { plan: Arc::new(plan), ..explain.clone() }),
            None => plan,
        };
        let shared = match sharing.decide(query, &repeats.plan).await {
            Ok(shared) => sharing.plan(shared, around).await,
            Err(error) => Err(error),
        };
        match shared {
            Ok(plan) => Ok(plan),
            Err(error) => {
                debug!(%error, "nothing is shared");
                sharing.plan(sharing.apart(&repeats.plan)?, around).await
            }
        }
    }
}

/// The planning of one statement.
struct Sharing<'a> {
    /// A state whose optimizer shares nothing.
    state: &'a SessionState,
    /// By their numbers, as they were written.
    subplans: &'a [LogicalPlan],
}

/// A query with mentions of subplans.
struct Shared {
    plan: LogicalPlan,
    subplans: BTreeMap<SubplanId, Merged>,
}

/// A subplan that suits all its readers.
struct Merged {
    plan: LogicalPlan,
    /// That of the plan before it was optimized, which is what readers know.
    schema: DFSchemaRef,
    readers: Vec<Reader>,
}

impl Sharing<'_> {
    /// The query with mentions of the subplans that are shared. `written`: as it was before it was optimized.
    async fn decide(&self, optimized: &LogicalPlan, written: &LogicalPlan) -> Result<Shared> {
        let all = self.merged(optimized.clone(), &HashSet::new())?;
        let inner = self.inner_readers().await?;
        let deadline = Instant::now() + TIME_MAX;
        let mut copied = HashSet::new();
        for place in 0..self.subplans.len() {
            let id = SubplanId(place);
            let is_shared = match all.subplans.get(&id) {
                Some(merged) if Instant::now() < deadline => self.pays(id, merged, &inner).await?,
                _ => false,
            };
            if !is_shared {
                copied.insert(id);
            }
        }
        if copied.is_empty() {
            return Ok(all);
        }
        let plan = self.with_copies(written.clone(), &copied)?;
        self.merged(self.optimized(plan)?, &copied)
    }

    /// The query with copies in the places of all mentions.
    fn apart(&self, written: &LogicalPlan) -> Result<Shared> {
        let all = (0..self.subplans.len()).map(SubplanId).collect();
        let plan = self.optimized(self.with_copies(written.clone(), &all)?)?;
        Ok(Shared { plan, subplans: BTreeMap::new() })
    }

    /// A plan with copies in the places of some mentions.
    fn with_copies(&self, plan: LogicalPlan, copied: &HashSet<SubplanId>) -> Result<LogicalPlan> {
        mention::replaced(plan, &|mention| {
            copied.contains(&mention.id).then(|| self.subplans[mention.id.0].clone())
        })
    }

    fn optimized(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        self.state.optimizer().optimize(plan, self.state, |_, _| {})
    }

    /// A query with the subplans that it mentions, but for those that are copied.
    fn merged(&self, plan: LogicalPlan, copied: &HashSet<SubplanId>) -> Result<Shared> {
        let mut readers = HashMap::new();
        readers::of_plan(&plan, &mut readers)?;
        let mut subplans = BTreeMap::new();
        for (place, subplan) in self.subplans.iter().enumerate() {
            // Those that mention it come before it, so that all its readers are known by now.
            let Some(of_subplan) = readers.remove(&SubplanId(place)) else { continue };
            let subplan = self.with_copies(subplan.clone(), copied)?;
            let written = readers::merged(&subplan, &of_subplan)?;
            let schema = Arc::clone(written.schema());
            let plan = self.optimized(written)?;
            readers::of_plan(&plan, &mut readers)?;
            subplans.insert(SubplanId(place), Merged { plan, schema, readers: of_subplan });
        }
        Ok(Shared { plan, subplans })
    }

    /// The readers of subplans that others mention, to estimate those by.
    async fn inner_readers(&self) -> Result<Readers> {
        let mut mentioned = HashSet::new();
        for subplan in self.subplans {
            mention::for_each(subplan, |mention| {
                mentioned.insert(mention.id);
            })?;
        }
        let mut inner = Readers::default();
        for (place, subplan) in self.subplans.iter().enumerate().rev() {
            if mentioned.contains(&SubplanId(place)) {
                let plan = self.physical(&self.optimized(subplan.clone())?, &inner).await?;
                inner.0.insert(SubplanId(place), Arc::new(SharedSubplan::new(place, plan, 0)));
            }
        }
        Ok(inner)
    }

    async fn physical(&self, plan: &LogicalPlan, readers: &Readers) -> Result<Arc<dyn ExecutionPlan>> {
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(readers.clone())]);
        planner.create_physical_plan(plan, self.state).await
    }

    /// True if the work of all readers is estimated to be less if a subplan is computed once.
    async fn pays(&self, id: SubplanId, merged: &Merged, inner: &Readers) -> Result<bool> {
        let written = &self.subplans[id.0];
        if merged.readers.len() < 2
            // Where nothing is gathered, the first rows come without the others.
            || (merged.readers.iter().any(|reader| reader.is_limited) && !gathers(written)?)
        {
            return Ok(false);
        }
        let plan = self.physical(&merged.plan, inner).await?;
        if plan.boundedness().is_unbounded() {
            return Ok(false);
        }
        let (Some(once), Some(rows)) = (work(&plan), of_plan(&plan)) else { return Ok(false) };
        // Each row is written once, and read by each.
        let shared = once + rows.rows * SHARED * (merged.readers.len() + 1) as f64;
        let Some(apart) = self.work_apart(written, &merged.readers, inner).await? else { return Ok(false) };
        debug!(
            subplan = id.0,
            readers = merged.readers.len(),
            shared,
            apart,
            "the work of a repeated subplan"
        );
        Ok(shared < apart * GAIN)
    }

    /// The work of readers each of which computes a subplan for itself.
    async fn work_apart(
        &self,
        subplan: &LogicalPlan,
        readers: &[Reader],
        inner: &Readers,
    ) -> Result<Option<f64>> {
        let mut times: HashMap<&Reader, usize> = HashMap::new();
        readers.iter().for_each(|reader| *times.entry(reader).or_default() += 1);
        let (mut sum, mut planned) = (0.0, 0);
        for (reader, times) in times.into_iter().take(PLANNED_MAX) {
            let plan = self.optimized(readers::alone(subplan, reader)?)?;
            let Some(work) = work(&self.physical(&plan, inner).await?) else { return Ok(None) };
            sum += work * times as f64;
            planned += times;
        }
        Ok(Some(sum * readers.len() as f64 / planned.max(1) as f64))
    }

    /// The physical plan of a query. `around`: the statement that it is the query of.
    async fn plan(
        &self,
        shared: Shared,
        around: impl Fn(LogicalPlan) -> LogicalPlan,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        // Those that are shared have numbers without gaps, which `EXPLAIN` shows.
        let numbers: HashMap<SubplanId, SubplanId> =
            shared.subplans.keys().enumerate().map(|(number, id)| (*id, SubplanId(number))).collect();
        let narrowed = |plan: LogicalPlan| {
            mention::replaced(plan, &|mention| {
                let schema = Arc::clone(&shared.subplans.get(&mention.id)?.schema);
                Some(Mention { id: numbers[&mention.id], schema, repeats: None }.into_plan())
            })
        };
        let mut readers = Readers::default();
        // Those that are mentioned by others come last.
        for (id, merged) in shared.subplans.iter().rev() {
            let plan = self.physical(&narrowed(merged.plan.clone())?, &readers).await?;
            let number = numbers[id];
            readers.0.insert(number, Arc::new(SharedSubplan::new(number.0, plan, merged.readers.len())));
        }
        let plan = self.physical(&around(narrowed(shared.plan.clone())?), &readers).await?;
        readers.count(&plan);
        Ok(plan)
    }
}

/// True of a plan with an operator that reads all rows before it gives the first.
fn gathers(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= matches!(
            node,
            LogicalPlan::Aggregate(_)
                | LogicalPlan::Distinct(_)
                | LogicalPlan::Sort(_)
                | LogicalPlan::Window(_)
        );
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// The planner of mentions: readers of the subplans that have been planned.
#[derive(Clone, Default)]
struct Readers(HashMap<SubplanId, Arc<SharedSubplan>>);

impl Readers {
    /// Tells each subplan how many operators read it.
    fn count(&self, plan: &Arc<dyn ExecutionPlan>) {
        let mut times = HashMap::new();
        let inputs = self.0.values().map(|subplan| subplan.input());
        inputs.chain([plan]).for_each(|plan| count(plan, &mut times));
        for subplan in self.0.values() {
            subplan.set_readers(times.get(&Arc::as_ptr(subplan)).copied().unwrap_or_default());
        }
    }
}

fn count(plan: &Arc<dyn ExecutionPlan>, times: &mut HashMap<*const SharedSubplan, usize>) {
    match plan.downcast_ref::<SharedSubplanExec>() {
        Some(reader) => *times.entry(Arc::as_ptr(reader.subplan())).or_default() += 1,
        None => plan.children().into_iter().for_each(|input| count(input, times)),
    }
}

#[async_trait]
impl ExtensionPlanner for Readers {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        _: &[Arc<dyn ExecutionPlan>],
        _: &dyn Session,
        _: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(mention) = node.as_any().downcast_ref::<Mention>() else { return Ok(None) };
        let subplan = self.0.get(&mention.id);
        Ok(subplan.map(|subplan| Arc::new(SharedSubplanExec::new(Arc::clone(subplan))) as _))
    }
}
