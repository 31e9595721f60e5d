//! The end of a run: everything works again, and what is there is compared with what clients were told.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::clients::{Client, Work};
use super::nodes::Node;
use super::world::{CLIENTS, NODES, World};
use crate::ids::BlockId;
use crate::namenode::hosts::Hosts;
use crate::wire::proto::namenode as calls;

impl World {
    /// Everybody comes back and says what there is; then all that was acknowledged is there, and nothing else.
    pub fn settle(&mut self) {
        self.has_faults = false;
        self.hosts = Hosts::default();
        self.state.set_hosts(Hosts::default(), self.now);
        for _ in 0..20_000 {
            self.step();
            for at in 0..NODES {
                if !self.nodes[at].is_up {
                    self.nodes[at].is_up = true;
                    self.nodes[at].reconnect();
                }
                self.nodes[at].is_full = false;
            }
            let is_idle =
                self.clients.iter().all(|client| client.work == Work::Idle && client.pending.is_none());
            if is_idle && self.nodes.iter().all(|node| node.outbox.is_empty()) {
                break;
            }
        }
        // All that is missing is made again, and what is there twice goes.
        for _ in 0..1_000 {
            self.now.steady_ms += 200;
            for at in 0..NODES {
                while let Some(message) = self.nodes[at].outbox.pop_front() {
                    self.arrive(at, message);
                }
            }
            self.sync(usize::MAX);
            (0..NODES).for_each(|at| self.beat_of(at));
            (0..8).for_each(|_| self.work());
            self.tick();
        }
        // Twice: what a report shows to be unneeded goes, and the node says so.
        for _ in 0..3 {
            self.sync(usize::MAX);
            for at in 0..NODES {
                while let Some(message) = self.nodes[at].outbox.pop_front() {
                    self.arrive(at, message);
                }
            }
            for _ in 0..200 {
                self.beat();
            }
            self.nodes.iter_mut().for_each(Node::report);
        }
        self.check();
    }

    fn check(&mut self) {
        for at in 0..CLIENTS {
            let files = self.clients[at].files.clone();
            assert_eq!(self.clients[at].work, Work::Idle, "client {at} has come to an end");
            let request =
                calls::ListingRequest { src: format!("/c{at}"), ..calls::ListingRequest::default() };
            let listing: calls::ListingResponse = self.look("getListing", &request);
            let found = listing.listing.into_iter().flat_map(|listing| listing.entries);
            let found: BTreeSet<String> =
                found.map(|entry| String::from_utf8_lossy(&entry.path).into_owned()).collect();
            let expected: BTreeSet<String> = files.keys().cloned().collect();
            assert_eq!(found, expected, "files of client {at}");
            for (name, blocks) in files {
                let path = self.clients[at].path(&name);
                let request = calls::BlockLocationsRequest { src: path.clone(), offset: 0, length: u64::MAX };
                let located: calls::BlockLocationsResponse = self.look("getBlockLocations", &request);
                let located = located.locations.expect("it is a file");
                assert!(!located.under_construction, "{path} was closed");
                let lengths: Vec<_> = located
                    .blocks
                    .iter()
                    .map(|one| (one.block.id.cast_signed(), one.block.length()))
                    .collect();
                assert_eq!(lengths, blocks, "{path}");
                for block in &located.blocks {
                    self.check_block(&path, block);
                }
            }
        }
        let needed = self.clients.iter().flat_map(Client::needed).map(|(id, _)| id);
        let needed: BTreeSet<i64> = needed.collect();
        for node in &self.nodes {
            let kept = node.replicas.keys().chain(node.unfinished.keys());
            let kept: BTreeSet<i64> = kept.map(|id| BlockId(*id).group().0).collect();
            let unneeded: Vec<_> = kept.difference(&needed).collect();
            assert!(unneeded.is_empty(), "node {} keeps {unneeded:?}, which nobody needs", node.number);
        }
    }

    fn look<A: prost::Message, R: prost::Message + Default>(
        &mut self,
        method: &'static str,
        argument: &A,
    ) -> R {
        let argument = Bytes::from(argument.encode_to_vec());
        let result = self.context(None, |state, context| state.call(context, method, argument));
        R::decode(&result.expect("all is there")[..]).expect("it is one")
    }
}
