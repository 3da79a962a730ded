"""Replicas must have heard of a lock before it counts; in a cluster it is on one server of many."""

from oncerun_test import BLOCKED, BUSY, DONE, LOST, NEXT, UNAVAILABLE, main
from redis_server import LOCK, TTL, ServersCase, boot_time, free_port


class Replicas(ServersCase):
    def test_the_lock_has_reached_the_replica_before_anything_starts(self):
        master, replica = self.master_and_replica()
        owner = self.begun("a", url=master.url)
        self.assertEqual(replica.get(LOCK), master.get(LOCK))
        self.assertEqual(self.mark(server=replica)[0], "pending")
        self.stop_witnesses()
        self.assertExit(owner.end(), DONE)

    def test_a_replica_that_lags_keeps_the_lock_from_being_taken(self):
        master, replica = self.master_and_replica()
        self.paused(replica)
        result = self.on("a", "--connect-timeout", "0.5s", url=master.url, command=self.witness("a"))
        self.assertExit(result, UNAVAILABLE, "replica")
        self.assertEqual(self.lines("starts"), [])
        # What was taken for that is given back.
        self.wait_free(server=master)
        replica.resume()
        self.stop_witnesses()
        self.assertExit(self.on("a", url=master.url, command=self.witness("a")), DONE)

    def test_how_many_replicas_must_have_it(self):
        master, replica = self.master_and_replica()
        self.paused(replica)
        self.stop_witnesses()
        self.assertExit(self.on("a", "--connect-timeout", "0.5s", "--lock-replicas", "0",
                                url=master.url, command=self.witness("a")), DONE)
        replica.resume()
        self.assertExit(self.on("a", "--lock-replicas", "1", url=master.url, date=NEXT,
                                command=self.witness("a")), DONE)
        self.assertExit(self.on("a", "--connect-timeout", "0.5s", "--lock-replicas", "2",
                                url=master.url, date="2024-03-01", command=self.witness("a")),
                        UNAVAILABLE)
        self.assertEqual(len(self.lines("starts")), 2)

    def test_a_replica_that_lags_in_mid_run_costs_the_lock(self):
        """What it has not heard of would be forgotten by a fail-over."""
        master, replica = self.master_and_replica()
        owner = self.begun("a", url=master.url)
        self.paused(replica)
        self.assertExit(owner.end(timeout=TTL + 8), LOST)
        self.assertEqual(self.lines("ends"), [])

    def test_a_replica_that_lags_for_a_moment_does_not(self):
        master, replica = self.master_and_replica()
        owner = self.begun("a", url=master.url)
        self.paused(replica)
        until = boot_time() + 0.7
        self.wait_for(lambda: boot_time() > until, what="the lag to last")
        replica.resume()
        self.renewed(master, times=2)
        self.stop_witnesses()
        self.assertExit(owner.end(), DONE)


class Cluster(ServersCase):
    """Two servers of a cluster without replicas, half of the slots each."""

    SLOTS = 16384

    def setUp(self):
        super().setUp()
        config = [("cluster-enabled", "yes"), ("cluster-require-full-coverage", "no")]
        self.nodes = [self.server(f"node{number}", tcp=True, config=[
            *config, ("cluster-config-file", f"nodes{number}.conf"), ("cluster-port", free_port())])
                      for number in range(2)]
        first, second = self.nodes
        half = self.SLOTS // 2
        first.ask("CLUSTER", "ADDSLOTSRANGE", 0, half - 1)
        second.ask("CLUSTER", "ADDSLOTSRANGE", half, self.SLOTS - 1)
        bus = second.ask("CONFIG", "GET", "cluster-port")[1]
        first.ask("CLUSTER", "MEET", "127.0.0.1", second.port, bus)
        for node in self.nodes:
            self.wait_for(lambda node=node: self.knows_all(node), what="the cluster to come together")
        second.wait_until_old(TTL)

    def knows_all(self, node):
        told = node.ask("CLUSTER", "INFO")
        return "cluster_state:ok" in told and f"cluster_slots_assigned:{self.SLOTS}" in told

    def home_of(self, key):
        slot = self.nodes[0].ask("CLUSTER", "KEYSLOT", key)
        return self.nodes[0 if slot < self.SLOTS // 2 else 1]

    def test_whichever_server_is_named(self):
        for number, node in enumerate(self.nodes):
            gate = self.gate(f"gate{number}")
            date = f"2024-03-0{number + 1}"
            owner = self.start_on("a", url=node.tcp_url, date=date, command=gate.shell)
            self.wait_begun(owner, gate)
            home = self.home_of(LOCK)
            self.assertIsNotNone(home.get(LOCK))
            self.assertEqual(self.mark(date, server=home)[0], "pending")
            self.renewed(home)
            gate.go()
            self.assertExit(owner.end(), DONE)
            self.assertIsNone(home.get(LOCK))
            self.assertEqual(self.mark(date, server=home)[0], "done")

    def test_two_hosts_by_two_servers(self):
        gate = self.gate()
        owner = self.start_on("a", url=self.nodes[0].tcp_url, command=gate.shell)
        self.wait_begun(owner, gate)
        self.assertEqual(self.on("b", url=self.nodes[1].tcp_url).returncode, BUSY)
        self.assertEqual(self.on("b", url=self.nodes[1].tcp_url, date=NEXT).returncode, BLOCKED)
        gate.go()
        self.assertExit(owner.end(), DONE)
        self.assertExit(self.on("b", url=self.nodes[1].tcp_url), DONE)
        self.assertEqual(self.runs(), 0)

    def test_explain_by_either_server(self):
        gate = self.gate()
        owner = self.start_on("a", url=self.nodes[0].tcp_url, command=gate.shell)
        self.wait_begun(owner, gate)
        for node in self.nodes:
            told = self.on("b", "--explain", url=node.tcp_url, date=NEXT)
            self.assertExit(told, DONE)
            self.assertIn(str(owner.pid), told.stdout)
        gate.go()
        self.assertExit(owner.end(), DONE)

    def test_a_job_whose_name_has_a_tag_of_its_own(self):
        for node in self.nodes:
            self.assertExit(self.on("a", url=node.tcp_url, job="settle {eu}"), DONE)
        self.assertEqual(self.runs(), 1)


if __name__ == "__main__":
    main()
