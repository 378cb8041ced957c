"""The figures and tables of publications, each with the claims that it carries.

Another publication is one file, its figures' names below and one line in `figures`.
"""

NAMES = (
    "chep2023_fig3",
    "chep2023_fig4",
    "chep2024_fig2",
    "chep2024_fig3",
    "chep2024_fig4",
    "chep2024_fig5",
    "chep2024_fig6",
    "chep2024_fig7",
    "chep2024_fig8",
    "chep2024_across",
    "nrp2021",
    "usatlas2007",
    "cambridge",
)
"""Every figure, by the name of the target that makes it. Here, as every job reads the rules, and few draw."""
