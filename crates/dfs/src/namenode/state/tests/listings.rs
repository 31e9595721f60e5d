//! Goal: several directories are listed in one call, and files that cannot be read are found. Method: as in the file above.

use super::*;

/// Texts, each with the number of the path that it is about.
type Numbered = Vec<(u32, String)>;

impl Fixture {
    /// All that paths have, by their places in the request, and the classes of those that cannot be listed; how many calls it took.
    fn batched(&mut self, paths: &[&str]) -> (Numbered, Numbered, usize) {
        let (mut names, mut failed, mut calls, mut start_after) = (Vec::new(), Vec::new(), 0, Bytes::new());
        loop {
            let paths = paths.iter().map(|path| (*path).to_owned()).collect();
            let request = calls::BatchedListingRequest {
                paths,
                start_after: start_after.clone(),
                need_location: false,
            };
            let answer: calls::BatchedListingResponse = self.call("getBatchedListing", &request).unwrap();
            calls += 1;
            for listing in answer.listings {
                let name = |entry: &crate::wire::proto::shared::FileStatus| {
                    (listing.parent, String::from_utf8(entry.path.to_vec()).unwrap())
                };
                names.extend(listing.entries.iter().map(name));
                failed.extend(listing.exception.map(|exception| (listing.parent, exception.class)));
            }
            if !answer.has_more {
                return (names, failed, calls);
            }
            start_after = answer.start_after;
        }
    }

    fn corrupt(&mut self, path: &str, cookie: Option<String>) -> calls::CorruptFiles {
        let request = calls::CorruptFilesRequest { path: path.to_owned(), cookie };
        self.call::<_, calls::CorruptFilesResponse>("listCorruptFileBlocks", &request).unwrap().corrupt
    }
}

#[test]
fn directories_of_a_batch_are_listed_whole_page_by_page_and_others_have_their_exceptions() {
    let mut fixture = Fixture::new(3);
    for directory in ["/a", "/b", "/empty", "/c"] {
        fixture.mkdir(directory);
    }
    let (mut expected, count) = (Vec::new(), 1100);
    for (index, directory) in [(0, "/a"), (1, "/b")] {
        for number in 0..count {
            fixture.mkdir(&format!("{directory}/d{number:04}"));
            expected.push((index, format!("d{number:04}")));
        }
    }
    fixture.mkdir("/c/last");
    expected.extend([(4, String::new()), (5, "last".to_owned())]);
    fixture.write("/file", 700);
    let paths = ["/a", "/b", "/none", "/empty", "/file", "/c"];
    let (names, failed, calls) = fixture.batched(&paths);
    assert_eq!(names, expected);
    assert_eq!(failed, [(2, "java.io.FileNotFoundException".to_owned())]);
    assert_eq!(calls, 3, "of 1000 entries, of more, and of the rest");
    // One that ends exactly with a page is not listed again.
    for number in count..1000 + count {
        fixture.mkdir(&format!("/c/d{number:04}"));
    }
    let (names, ..) = fixture.batched(&["/c", "/empty", "/b"]);
    assert_eq!(names.len(), 1001 + count);
    fixture.user = user("visitor", &[]);
    let set = calls::SetPermissionRequest { src: "/a".to_owned(), permission: Permission { mode: 0o700 } };
    fixture.user = user("root", &[]);
    let _: calls::Empty = fixture.call("setPermission", &set).unwrap();
    fixture.user = user("visitor", &[]);
    let (names, failed, _) = fixture.batched(&["/a", "/c/last"]);
    let denied = "org.apache.hadoop.security.AccessControlException".to_owned();
    assert_eq!((names, failed), (Vec::new(), vec![(0, denied)]));
}

#[test]
fn a_batch_of_too_many_paths_and_a_key_of_others_are_refused() {
    let mut fixture = Fixture::new(1);
    let request = |paths: Vec<String>, start_after: &[u8]| calls::BatchedListingRequest {
        paths,
        start_after: Bytes::copy_from_slice(start_after),
        need_location: false,
    };
    let (exception, message) = fixture.refused("getBatchedListing", &request(vec!["/".to_owned(); 101], b""));
    assert_eq!(
        (exception, message.as_str()),
        (Exception::IllegalArgument, "Too many source paths (101 > 100)")
    );
    let key =
        calls::BatchedListingKey { index: 1, path: "/b".to_owned(), after: Bytes::new() }.encode_to_vec();
    for (paths, key) in
        [(vec!["/".to_owned()], &key[..]), (vec!["/".to_owned(); 2], &key[..]), (vec![], b"\xff")]
    {
        assert_eq!(fixture.refused("getBatchedListing", &request(paths, key)).0, Exception::IllegalArgument);
    }
}

#[test]
fn files_that_cannot_be_read_are_listed_page_by_page_until_they_can() {
    let mut fixture = Fixture::new(3);
    fixture.mkdir("/lost");
    let mut blocks = Vec::new();
    for number in 0..150 {
        let located = fixture.write(&format!("/lost/{number}"), 700);
        for node in numbers(&located) {
            fixture.notice(node, &located.block, 700, true);
        }
        blocks.push(located);
    }
    let kept = fixture.write("/kept", 700);
    fixture.notice(numbers(&kept)[0], &kept.block, 700, true);
    let first = fixture.corrupt("/", None);
    let second = fixture.corrupt("/", Some(first.cookie.clone()));
    assert_eq!((first.files.len(), second.files.len()), (100, 50));
    let found: std::collections::BTreeSet<String> = first.files.into_iter().chain(second.files).collect();
    assert!(found.len() == 150 && !found.contains("/kept"));
    let last = fixture.corrupt("/", Some(second.cookie.clone()));
    assert_eq!((last.files, last.cookie), (Vec::new(), second.cookie));
    assert_eq!(fixture.corrupt("/kept", None).files.len(), 0);
    assert_eq!(fixture.corrupt("/lost/7", None).files, ["/lost/7"]);
    assert_eq!(fixture.corrupt("/none", None).files.len(), 0);
    fixture.notice(0, &blocks[7].block, 700, false);
    assert_eq!(fixture.corrupt("/lost/7", None).files.len(), 0, "one copy is enough");
    let _: BoolResponse = fixture.call("delete", &delete("/lost", true)).unwrap();
    assert_eq!(fixture.corrupt("/", None).files.len(), 0);
    let request =
        |cookie: &str| calls::CorruptFilesRequest { path: "/".to_owned(), cookie: Some(cookie.to_owned()) };
    assert_eq!(fixture.refused("listCorruptFileBlocks", &request("x")).0, Exception::HadoopIllegalArgument);
    fixture.user = user("visitor", &[]);
    assert_eq!(fixture.refused("listCorruptFileBlocks", &request("")).0, Exception::AccessControl);
}
