"""What recording rules are to record."""

from dataclasses import dataclass
from typing import Final

_JOB: Final = 'fs="home",component="ost",cluster="vu"'


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a rule makes of series of a value a minute."""

    record: str
    minute: int
    series: dict[str, str]
    expected: dict[str, float]


RECORDED: Final = (
    *(
        Recorded(
            f"cluster_jobid:lustre_job_{what}:rate2m",
            5,
            {
                f'lustre_job_{what}_total{{{_JOB},target="home-OST0000",jobid="1"{more}}}': "0+60x9",
                f'lustre_job_{what}_total{{{_JOB},target="home-OST0001",jobid="1"{more}}}': "0+120x9",
                f'lustre_job_{what}_total{{{_JOB},target="home-OST0001",jobid="other"{more}}}': "0+6x9",
            },
            {
                f'cluster_jobid:lustre_job_{what}:rate2m{{cluster="vu",jobid="1"}}': 3,
                f'cluster_jobid:lustre_job_{what}:rate2m{{cluster="vu",jobid="other"}}': 0.1,
            },
        )
        for what, more in (("read_bytes", ""), ("write_bytes", ""), ("stats", ',operation="punch"'))
    ),
    Recorded(
        "user_target:harvest_metadata_operations:sum",
        1,
        {
            'cluster_job_metadata_operations{account="a",user="ann",target="home-MDT0000"}': "5x9",
            'cluster_job_metadata_operations{account="b",user="ann",target="home-MDT0000"}': "7x9",
            'cluster_job_metadata_operations{account="b",user="ann",target="home-MDT0001"}': "1x9",
            'cluster_proc_metadata_operations{proc_name="a",user_name="ann",target="home-MDT0000"}': "2x9",
            'cluster_proc_metadata_operations{proc_name="a",user_name="bob",target="home-MDT0000"}': "3x9",
        },
        {
            'user_target:harvest_metadata_operations:sum{user="ann",target="home-MDT0000"}': 14,
            'user_target:harvest_metadata_operations:sum{user="ann",target="home-MDT0001"}': 1,
            'user_target:harvest_metadata_operations:sum{user="bob",target="home-MDT0000"}': 3,
        },
    ),
)
