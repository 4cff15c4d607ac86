"""What ``--help`` says below the options of each command."""

from typing import Final

COMMANDS: Final = """\
examples:
  harvest-agent run --config /etc/harvest/agent.toml
                                               sweep, spool and send, until a signal ends it
  harvest-agent doctor                         what is here, and is anything wrong?
  harvest-agent sample                         who does I/O on this server's targets
  harvest-agent sample --json | head           every counter, one JSON object per line
  lctl get_param '*.*.job_stats' > file; harvest-agent sample --lctl file
  harvest-agent dump --output report.tar.gz    a bundle for a bug report, job ids masked
  harvest-agent join harvest.example --token-file token
                                               get this server's certificate and configuration, with a token
  harvest-agent enrol --site harvest/example --node oss1
                                               in a Pod: get this node's certificate, and keep it fresh
"""

RUN: Final = """\
The configuration is TOML. All there is to say on most servers:

  [[uplink]]
  address = "harvest.example:8023"
  server_name = "main.example.harvest"     # the name in the aggregator's certificate
  ca = "/etc/harvest/ca.crt"               # the three files of `harvest-aggregator ca issue-agent`
  cert = "/etc/harvest/tls.crt"
  key = "/etc/harvest/tls.key"             # readable by its owner only

and, with their defaults:

  [spool]
  directory = "/var/lib/harvest-agent/spool"
  max_bytes = 1073741824

  [lustre]
  root = "/"
  filesystems = []                         # all

  [agent]
  name = ""                                # the certificate's
  duty_limit = 0.1                         # of the time may be spent reading in the kernel

On a host of Slurm, for all its jobs' users, accounts and times (docs/reference/agent.md has the rest of its keys):

  [slurm]
  source = "command"                       # or "pyslurm", "slurmrestd"
  period_seconds = 30

Sweeps are made at wall-clock multiples of the interval that the aggregator asks for (20 s until then). SIGTERM ends it
after one more sweep; SIGHUP looks at the TLS files now, which happens after every sweep in any case. Everything else
that is changed needs a restart, which loses nothing; with --follow the agent begins anew by itself when FILE is
changed. Log lines are on standard error.
"""

ENROL: Final = """\
It runs beside `harvest-agent run` in the Pods of the chart's DaemonSet (values: agents). The key is made here and never
leaves the folder. Kubernetes is asked for a certificate with a CertificateSigningRequest; the site's operator approves
it if the Pod runs on that very node, and signs it if the site lists the node as a server. What is refused is told in
the log with the operator's reason, and asked for again later, at most ten minutes apart.

In the folder then are tls.key, tls.crt, ca.crt and, last of all, agent.toml for `harvest-agent run --follow`. The
certificate is renewed after two thirds of its lifetime, and when the site has a new CA; ca.crt and agent.toml are
brought up to date within a minute. SIGTERM ends it. Log lines are on standard error.
"""

JOIN: Final = """\
Tokens are made where the CA is: `harvest-aggregator ca token oss1`, or, with Kubernetes, `harvest token create SITE
oss1`. A token is for one server, once, and for a short time. A token on the command line can be read by every user of
this machine while the command runs, and stays in the shell's history: use --token-file, which may be - .

The key is made here and never leaves this machine. The token names the site's CA by its fingerprint, and is sent to
nobody else. Run it as root: the configuration is then root's and readable by the agent's group; key and certificate
belong to whom the state folder belongs, which is all that the agent can write to, for it renews them.

  harvest-agent join harvest.example --token-file token && systemctl start harvest-agent
"""
