//! The NameNode's pages for people: the cluster with its DataNodes and repairs, and the directories with their files.

use yeoul_console::{Cell, Href, Page, Table, Tone, query_value};

use super::AdminState;
use super::namespace::User;
use super::state::{RepairUnderWay, Upkeep};
use crate::display::utc_second;
use crate::report::{ClusterReport, Node};
use crate::wire::Refusal;
use crate::wire::exception::Exception;
use crate::wire::proto::namenode::{ContentSummary, ListingRequest, ListingResponse};
use crate::wire::proto::shared::FileStatus;

/// The path of the file browser.
pub(super) const FILES_PATH: &str = "/files";

/// Entries of a directory on one page; a link leads to the next ones.
const ENTRIES_MAX: usize = yeoul_console::ROWS_MAX;

/// Milliseconds of silence after which a live DataNode's last contact is marked.
const SILENCE_MS_MAX: u64 = 10_000;

/// HDFS's numbers of what an entry is.
const DIRECTORY: i32 = 1;

const PRODUCT: &str = "Yeoul dfs";

/// The user as whom the file browser looks: nobody says who they are, so they see what everybody may. HDFS's pages call them
/// so, too (`hadoop.http.staticuser.user`).
pub(super) fn visitor() -> User {
    User { name: "dr.who".to_owned(), groups: Vec::new(), is_superuser: false }
}

/// What the page of the cluster shows.
pub(super) struct Overview<'a> {
    /// `host:port` for clients.
    pub address: &'a str,
    /// Now, in milliseconds since 1970.
    pub now_ms: u64,
    /// DataNodes, space, and what is missing.
    pub report: &'a ClusterReport,
    /// Totals of the whole namespace.
    pub summary: &'a ContentSummary,
    /// Blocks and repairs.
    pub upkeep: &'a Upkeep,
}

impl Overview<'_> {
    /// The page, which is at `path`.
    pub fn page(&self, path: &'static str, query: &str) -> Page {
        let Self { report, upkeep, .. } = self;
        let mut page = Page::new(format!("NameNode {}", self.address), PRODUCT)
            .refreshing(path, query)
            .link("Files", Href::local(FILES_PATH, &[]))
            .link("Status (JSON)", Href::local("/api/v1/status", &[]))
            .link("Metrics", Href::local("/metrics/prometheus", &[]))
            .link("Health", Href::local("/healthz", &[]));
        if let Some(why) = &upkeep.safe_mode {
            page = page.notice(Tone::Warning, format!("Safe mode is on, and nothing can be changed: {why}."));
        }
        if report.missing_blocks > 0 {
            let text =
                format!("{} blocks cannot be read: too few of their copies are here.", report.missing_blocks);
            page = page.notice(Tone::Bad, text);
        }
        if report.datanodes.iter().all(|node| !node.live) {
            page = page.notice(Tone::Warning, "No DataNode is live: no file can be read or written.");
        }
        page.figures(self.totals()).table(self.nodes()).table(repairs(upkeep))
    }

    fn totals(&self) -> Vec<(&'static str, Cell)> {
        let Self { report, summary, upkeep, .. } = self;
        let live = report.datanodes.iter().filter(|node| node.live).count();
        let worry = |count: u64, tone| match count {
            0 => Cell::number(0),
            count => Cell::state(tone, count.to_string()),
        };
        let safe_mode = match upkeep.safe_mode {
            Some(_) => Cell::state(Tone::Warning, "on"),
            None => Cell::text("off"),
        };
        vec![
            ("DataNodes live", Cell::text(format!("{live} of {}", report.datanodes.len()))),
            ("Space for blocks", Cell::space(report.used, report.used.saturating_add(report.remaining))),
            ("Files", Cell::number(summary.files)),
            ("Directories", Cell::number(summary.directories)),
            ("Bytes of files", Cell::bytes(summary.length)),
            ("Blocks", Cell::number(upkeep.blocks as u64)),
            ("Copies and units", Cell::number(upkeep.replicas)),
            ("Missing blocks", worry(report.missing_blocks, Tone::Bad)),
            ("With too few copies", worry(report.under_replicated_blocks, Tone::Warning)),
            ("With damaged copies", worry(report.corrupt_blocks, Tone::Warning)),
            ("Copies to delete", Cell::number(report.pending_deletions)),
            ("Repairs waiting", Cell::number(upkeep.waiting as u64)),
            ("Safe mode", safe_mode),
            ("Version", Cell::text(env!("CARGO_PKG_VERSION"))),
        ]
    }

    /// The DataNodes, the dead ones first.
    fn nodes(&self) -> Table {
        let columns =
            &["DataNode", "State", "Last contact", "Space for blocks", "Disk", "Blocks", "Transfers", "Rack"];
        let mut table = Table::new("DataNodes", columns).or_say("No DataNode has registered.");
        let mut nodes: Vec<&Node> = self.report.datanodes.iter().collect();
        nodes.sort_by_key(|node| node.live);
        table.fill(nodes.len(), nodes.into_iter().map(|node| self.node(node)));
        table
    }

    fn node(&self, node: &Node) -> Vec<Cell> {
        let in_service = AdminState::InService.words();
        let (tone, state) = match (node.live, node.admin_state) {
            (true, duty) if duty == in_service => (Tone::Good, "live".to_owned()),
            (false, duty) if duty == in_service => (Tone::Bad, "dead".to_owned()),
            // Somebody wanted it so.
            (is_live, duty) => (Tone::Warning, format!("{}, {duty}", if is_live { "live" } else { "dead" })),
        };
        let silent_ms = self.now_ms.saturating_sub(node.last_seen_ms);
        let contact = match node.live && silent_ms > SILENCE_MS_MAX {
            true => Cell::state(Tone::Warning, format!("{} s ago", silent_ms / 1000)),
            false => Cell::ago(node.last_seen_ms, self.now_ms),
        };
        let name = match node.address.rsplit_once(':') {
            Some((ip, port)) if ip != node.host => format!("{}:{port}", node.host),
            _ => node.address.clone(),
        };
        vec![
            Cell::link(name, Href::server(&node.host, node.info_port)),
            Cell::state(tone, state),
            contact,
            Cell::space(node.used, node.used.saturating_add(node.remaining)),
            Cell::bytes(node.capacity),
            Cell::number(node.blocks),
            Cell::number(node.transfers.into()),
            Cell::text(&node.rack),
        ]
    }
}

fn repairs(upkeep: &Upkeep) -> Table {
    let columns = &["Block", "File", "Size", "DataNode", "Reads", "Writes to", "State"];
    let mut table = Table::new("Repairs under way", columns).or_say("Nothing is being repaired.");
    let row = |repair: &RepairUnderWay| {
        let state = if repair.is_given { "running" } else { "planned" };
        vec![
            Cell::text(repair.block.to_string()),
            Cell::text(&repair.file),
            Cell::bytes(repair.bytes),
            Cell::text(&repair.worker),
            Cell::number(repair.sources as u64),
            Cell::lines(repair.targets.iter().map(Cell::text)),
            Cell::state(Tone::Plain, state),
        ]
    };
    table.fill(upkeep.under_way, upkeep.repairs.iter().map(row));
    table
}

/// The listing that a query of the file browser asks for: `path` is the directory, `after` the last entry of the page before.
pub(super) fn listing_request(query: &str) -> ListingRequest {
    let src = query_value(query, "path").filter(|path| !path.is_empty()).unwrap_or_else(|| "/".to_owned());
    let start_after = query_value(query, "after").unwrap_or_default().into_bytes().into();
    ListingRequest { src, start_after, need_location: false }
}

/// The page of a directory, or of a file, with its status: 404 if there is no such path, 403 if not everybody may see it.
pub(super) fn files_page(request: &ListingRequest, listed: Result<ListingResponse, Refusal>) -> (u16, Page) {
    let path = &request.src;
    let page = Page::new("Files", PRODUCT).link("Cluster", Href::local("/", &[])).trail(trail(path));
    match listed.map(|response| response.listing) {
        Ok(Some(listing)) => {
            let beyond = listing.entries.len().saturating_sub(ENTRIES_MAX);
            let entries = &listing.entries[..listing.entries.len() - beyond];
            let more = beyond + listing.remaining as usize;
            let mut table = Table::new("Entries", ENTRY_COLUMNS).or_say("The directory is empty.");
            table.fill(entries.len() + more, entries.iter().map(|entry| row(path, entry)));
            let page = page.table(table);
            match entries.last().filter(|_| more > 0) {
                Some(last) => {
                    let query = [("path", path.as_str()), ("after", &*String::from_utf8_lossy(&last.path))];
                    (200, page.trail([Cell::link("Next entries", Some(Href::local(FILES_PATH, &query)))]))
                }
                None => (200, page),
            }
        }
        Ok(None) => (404, page.notice(Tone::Warning, format!("There is no file or directory {path}"))),
        Err(refusal) => {
            let status = if refusal.exception == Exception::AccessControl { 403 } else { 400 };
            (status, page.notice(Tone::Warning, refusal.to_string()))
        }
    }
}

const ENTRY_COLUMNS: &[&str] =
    &["Name", "Size", "Modified (UTC)", "Owner", "Group", "Mode", "Copies", "Block size"];

fn row(path: &str, entry: &FileStatus) -> Vec<Cell> {
    let is_directory = entry.kind == DIRECTORY;
    let name = String::from_utf8_lossy(&entry.path);
    // A file is listed as itself, without a name.
    let own = || path.rsplit('/').next().unwrap_or_default().to_owned();
    let name = if name.is_empty() { own() } else { name.into_owned() };
    let below = format!("{}/{name}", path.trim_end_matches('/'));
    let directory = is_directory.then(|| Href::local(FILES_PATH, &[("path", &below)]));
    let copies = match (&entry.policy, is_directory) {
        (Some(policy), _) => Cell::text(policy.name.as_deref().unwrap_or_default()),
        (None, true) => Cell::text(""),
        (None, false) => Cell::text(entry.replication.unwrap_or_default().to_string()),
    };
    let size = |bytes| if is_directory { Cell::text("") } else { Cell::bytes(bytes) };
    vec![
        Cell::link(if is_directory { format!("{name}/") } else { name }, directory),
        size(entry.length),
        Cell::text(utc_second(entry.modified_ms)),
        Cell::text(&entry.owner),
        Cell::text(&entry.group),
        Cell::text(mode(is_directory, entry.permission.mode)),
        copies,
        size(entry.block_size.unwrap_or_default()),
    ]
}

/// A mode as `ls` shows it.
fn mode(is_directory: bool, bits: u32) -> String {
    let mut text = String::from(if is_directory { "d" } else { "-" });
    for (at, letter) in "rwxrwxrwx".chars().enumerate() {
        text.push(if bits & (0o400 >> at) != 0 { letter } else { '-' });
    }
    if bits & 0o1000 != 0 {
        text.pop();
        text.push(if bits & 1 != 0 { 't' } else { 'T' });
    }
    text
}

/// Directories of a path that the browser shows as links.
const STEPS_MAX: usize = 64;

/// The directories above a path and its own name, each a link.
fn trail(path: &str) -> Vec<Cell> {
    let mut steps = vec![Cell::link("(root)", Some(Href::local(FILES_PATH, &[])))];
    let mut so_far = String::new();
    for name in path.split('/').filter(|name| !name.is_empty()).take(STEPS_MAX) {
        so_far = format!("{so_far}/{name}");
        steps.push(Cell::link(name, Some(Href::local(FILES_PATH, &[("path", &so_far)]))));
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::BlockId;
    use crate::wire::proto::namenode::Listing;

    const HOSTILE: &str = "<script>alert(1)</script>\"'&";

    fn node(number: u16, live: bool, last_seen_ms: u64) -> Node {
        Node {
            address: format!("10.0.0.1:{number}"),
            host: "node-1".to_owned(),
            uuid: "u".to_owned(),
            info_port: number + 1,
            rack: HOSTILE.to_owned(),
            live,
            admin_state: if number == 9870 { "Decommissioned" } else { "In Service" },
            capacity: 200 << 30,
            used: 30 << 30,
            remaining: 90 << 30,
            blocks: 17,
            transfers: 2,
            last_seen_ms,
        }
    }

    fn html(safe_mode: Option<&str>, repairs: Vec<RepairUnderWay>) -> String {
        let report = ClusterReport {
            safe_mode: safe_mode.is_some(),
            capacity: 400 << 30,
            used: 60 << 30,
            remaining: 180 << 30,
            under_replicated_blocks: 4,
            corrupt_blocks: 0,
            missing_blocks: 2,
            pending_deletions: 5,
            datanodes: [(9866, true, 99_000), (9868, false, 40_000), (9870, false, 30_000)]
                .map(|(port, live, seen_ms)| node(port, live, seen_ms))
                .to_vec(),
        };
        let summary =
            ContentSummary { files: 1234, directories: 56, length: 7 << 20, ..ContentSummary::default() };
        let upkeep = Upkeep {
            blocks: 2345,
            replicas: 6789,
            waiting: 77,
            under_way: 300,
            repairs,
            safe_mode: safe_mode.map(str::to_owned),
        };
        let overview = Overview {
            address: "nn:8020",
            now_ms: 100_000,
            report: &report,
            summary: &summary,
            upkeep: &upkeep,
        };
        overview.page("/", "").render()
    }

    #[test]
    fn the_cluster_shows_its_nodes_the_dead_first_with_their_last_contact_and_links() {
        let shown = html(None, Vec::new());
        for expected in [
            "1 of 3",
            ">dead<",
            ">dead, Decommissioned<",
            "http://node-1:9867/",
            "1 s ago",
            "60 s ago",
            "30 GiB of 120 GiB",
            "1,234",
            "2,345",
            "6,789",
            "2 blocks cannot be read",
            "Nothing is being repaired.",
        ] {
            assert!(shown.contains(expected), "{expected}: {shown}");
        }
        assert!(shown.find("node-1:9868").unwrap() < shown.find("node-1:9866").unwrap(), "the dead first");
        assert!(!shown.contains("<script"), "{shown}");
        assert!(!shown.contains("Safe mode is on"));
    }

    #[test]
    fn repairs_under_way_and_the_reason_of_safe_mode_are_shown() {
        let repair = RepairUnderWay {
            block: BlockId(1_073_741_825),
            file: format!("/{HOSTILE}"),
            bytes: 128 << 20,
            worker: "node-1:9866".to_owned(),
            sources: 6,
            targets: vec!["node-2:9866".to_owned()],
            is_given: true,
        };
        let shown = html(Some(HOSTILE), vec![repair]);
        for expected in ["blk_1073741825", "128 MiB", "node-2:9866", "running", "299 more are not shown"] {
            assert!(shown.contains(expected), "{expected}: {shown}");
        }
        assert!(shown.contains("Safe mode is on") && !shown.contains("<script"), "{shown}");
    }

    fn entry(name: &str, kind: i32) -> FileStatus {
        let path = name.as_bytes().to_vec().into();
        FileStatus { path, kind, length: 5 << 20, owner: HOSTILE.to_owned(), ..FileStatus::default() }
    }

    fn listed(entries: Vec<FileStatus>, remaining: u32) -> Result<ListingResponse, Refusal> {
        Ok(ListingResponse { listing: Some(Listing { entries, remaining }) })
    }

    #[test]
    fn a_name_in_a_directory_is_no_markup_and_leads_to_itself() {
        let request = listing_request("path=%2Fa%2Fb");
        assert_eq!((request.src.as_str(), &*request.start_after), ("/a/b", &b""[..]));
        let (status, page) =
            files_page(&request, listed(vec![entry(HOSTILE, DIRECTORY), entry("f&g", 2)], 0));
        let shown = page.render();
        assert_eq!(status, 200);
        assert!(!shown.contains("<script"), "{shown}");
        let link = "href=\"/files?path=%2Fa%2Fb%2F%3Cscript%3Ealert%281%29%3C%2Fscript%3E%22%27%26\"";
        assert!(shown.contains(link), "{shown}");
        assert!(
            shown.contains("f&amp;g") && shown.contains("5 MiB") && !shown.contains("Next entries"),
            "{shown}"
        );
        assert!(shown.contains("href=\"/files?path=%2Fa\""), "the directory above: {shown}");
    }

    #[test]
    fn a_directory_of_many_entries_is_shown_page_by_page() {
        let request = listing_request("");
        assert_eq!(request.src, "/");
        let entries = (0..1000).map(|number| entry(&format!("file {number:04}"), 2)).collect();
        let (_, page) = files_page(&request, listed(entries, 500));
        let shown = page.render();
        assert_eq!(shown.matches("<tr>").count(), 1 + ENTRIES_MAX);
        assert!(shown.contains("1,300 more are not shown."), "{shown}");
        assert!(shown.contains("/files?path=%2F&amp;after=file+0199"), "{shown}");
        let next = listing_request("path=%2F&after=file+0199");
        assert_eq!(&*next.start_after, b"file 0199");
    }

    #[test]
    fn what_is_not_there_and_what_is_private_have_their_status() {
        let request = listing_request("path=/nothing");
        assert_eq!(files_page(&request, Ok(ListingResponse::default())).0, 404);
        let (status, page) = files_page(&request, Err(Refusal::new(Exception::AccessControl, HOSTILE)));
        assert_eq!(status, 403);
        assert!(!page.render().contains("<script"));
    }

    #[test]
    fn modes_are_as_ls_shows_them() {
        assert_eq!(
            [mode(true, 0o1777), mode(true, 0o1750), mode(false, 0o644)],
            ["drwxrwxrwt", "drwxr-x--T", "-rw-r--r--"]
        );
    }
}
