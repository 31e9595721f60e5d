"""Extended attributes, ACLs, quotas and storage policies with the stock client: what they allow and refuse, that they go with a
file, and that they are there after the NameNode was killed.

Usage: attributes.py [--short]    exits 1 if an answer is not what it must be
"""

import argparse
import pathlib
import sys
import tempfile
import time

from cluster import Findings, Servers, Shell

KIB = 1 << 10
# Seconds for which the NameNode may be in safe mode after its start.
SAFE_MODE_SECONDS_MAX = 60


class Checked:
    """A shell whose answers are compared."""

    def __init__(self, findings: Findings, shell: Shell, who: str):
        self.findings, self.shell, self.who = findings, shell, who

    def __call__(self, code: int, arguments: str, *texts: str, without: tuple = ()):
        found, printed = self.shell(*arguments.split())
        text = printed.decode(errors="replace")
        # The tools of administrators have other codes than 1 for what fails.
        is_right = (found == 0) == (code == 0) and all(part in text for part in texts) and not any(part in text for part in without)
        self.findings.right(f"{self.who}: {arguments[:100]}", is_right, f"{found} {text[-600:]}")


def make(root: Checked, alice: Checked, bob: Checked, sent: pathlib.Path):
    """What is set, and what is refused meanwhile."""
    root(0, "-mkdir -p /team /plain")
    root(0, "-chown alice:staff /team")
    root(0, "-chmod 750 /team")
    alice(0, f"-put {sent} /team/f")
    bob(1, "-ls /team", "Permission denied: user=bob, access=")
    alice(0, "-setfacl -m user:bob:r-x,default:user:bob:rwx /team")
    bob(0, "-ls /team", "/team/f")
    bob(1, "-touchz /team/g", "Permission denied: user=bob, access=WRITE", "drwxr-x---+")
    bob(1, "-setfacl -m user:bob:rwx /team", "Permission denied. user=bob is not the owner of inode=")
    alice(1, "-setfacl -m default:user:bob:rwx /team/f", "Invalid ACL: only directories may have a default ACL")
    alice(0, "-mkdir /team/below")
    alice(0, "-getfacl /team/below", "user:bob:rwx", "default:user:bob:rwx")
    alice(0, "-ls -d /team/below", "drwxrwx---+")
    bob(0, "-touchz /team/below/mine")
    bob(0, "-rm -skipTrash /team/below/mine")
    alice(0, "-setfattr -n user.origin -v store7 /team/f")
    bob(1, "-setfattr -n user.origin -v other /team/f", "Permission denied: user=bob, access=WRITE")
    alice(1, "-setfattr -n trusted.mark -v x /team/f", "User doesn't have permission for xattr: trusted.mark")
    root(0, "-setfattr -n trusted.mark -v x /team/f")
    root(1, f"-setfattr -n user.large -v {'y' * (16 * KIB)} /team/f", "The XAttr is too big")
    alice(0, "-getfattr -d /team/f", 'user.origin="store7"', without=("trusted",))
    alice(0, "-cp -px /team/f /team/copy")
    alice(0, "-getfattr -d /team/copy", 'user.origin="store7"')
    alice(0, "-mv /team/f /team/moved")
    alice(0, "-rm -skipTrash /team/copy")
    alice(0, f"-put {sent} /team/copy")
    alice(0, "-getfattr -d /team/copy", without=("store7",))
    alice(1, "dfsadmin -setQuota 5 /team", "Superuser privilege is required")
    root(0, "dfsadmin -setQuota 4 /team")
    alice(1, "-mkdir /team/more", "The NameSpace quota (directories and files) of directory /team is exceeded: quota=4 file count=5")
    # HDFS removes a file before it refuses what is to take its place.
    root(0, "dfsadmin -setQuota 1 /team")
    alice(1, f"-put -f -d {sent} /team/copy", "of directory /team is exceeded: quota=1 file count=4")
    alice(0, "-getfacl /team/copy")
    root(0, "dfsadmin -setQuota 4 /team")
    root(0, "dfsadmin -setSpaceQuota 1m /plain")
    root(1, f"-put {sent} /plain/f", "The DiskSpace quota of /plain is exceeded: quota = 1048576 B = 1 MB but diskspace consumed")
    root(0, "-rm -f -skipTrash /plain/f /plain/f._COPYING_")
    root(0, "storagepolicies -setStoragePolicy -path /plain -policy ALL_SSD")
    root(1, "storagepolicies -setStoragePolicy -path /plain -policy TEPID", "Cannot find a block policy with the name TEPID")
    root(1, "storagepolicies -satisfyStoragePolicy -path /plain", "satisfyStoragePolicy is not supported")


def check(root: Checked, alice: Checked, bob: Checked):
    """What is to be there, whatever happened meanwhile."""
    root(0, "-ls /", "drwxr-x---+  - alice staff")
    alice(0, "-getfacl /team", "user:bob:r-x", "mask::r-x", "other::---", "default:user:bob:rwx", "default:mask::rwx")
    bob(0, "-ls /team", "/team/moved")
    root(0, "-getfattr -d /team/moved", 'user.origin="store7"', 'trusted.mark="x"')
    root(0, "-count -q /team", "           4               0            none             inf            2            2")
    alice(1, "-mkdir /team/more", "is exceeded: quota=4 file count=5")
    root(0, "-count -q /plain", "         1048576         1048576")
    root(0, "storagepolicies -getStoragePolicy -path /plain", "ALL_SSD")


def restart(servers: Servers, findings: Findings, shell: Shell, how: str):
    servers.kill("namenode")
    servers.start("namenode")
    end = time.monotonic() + SAFE_MODE_SECONDS_MAX
    while shell("dfsadmin", "-safemode", "get")[1].find(b"OFF") < 0 and time.monotonic() < end:
        time.sleep(0.5)
    findings.right(f"safe mode ends after the NameNode was killed ({how})", time.monotonic() < end, "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="the NameNode is killed once")
    short = parser.parse_args().short
    findings = Findings()
    settings = {"dfs.blocksize": 1 << 20, "dfs.client.retry.policy.enabled": "true", "ipc.client.connect.max.retries": 1}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        sent = folder / "sent"
        sent.write_bytes(b"a line\n" * KIB)
        with Servers(folder, 3) as servers:
            users = [Shell(servers.address, settings=settings, user=user) for user in (None, "alice", "bob")]
            with users[0] as root, users[1] as alice, users[2] as bob:
                checked = [Checked(findings, shell, who) for shell, who in [(root, "root"), (alice, "alice"), (bob, "bob")]]
                make(*checked, sent)
                check(*checked)
                for how in ["once"] if short else ["once", "twice", "three times"]:
                    restart(servers, findings, root, how)
                    check(*checked)
    return 1 if findings.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
