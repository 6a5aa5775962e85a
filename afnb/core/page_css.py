"""The card's style block: every rule scoped to the card, colours from the host's own variables.

JupyterLab (``--jp-*``) and VS Code (``--vscode-*``) say what they look like; elsewhere
``prefers-color-scheme`` decides. The accents are from the Okabe and Ito palette, lightened for dark
grounds, so that colour-blind readers tell them apart; no meaning rests on colour alone.
"""

from __future__ import annotations

_LIGHT = {
    "good": "#005f9e",
    "bad": "#b34700",
    "warn": "#7a5c00",
    "patch": "#8a3b78",
    "fg-own": "#1b1f24",
    "dim-own": "#57606a",
    "bg-own": "#ffffff",
    "line-own": "#d0d7de",
    "soft-own": "#f4f6f8",
}
_DARK = {
    "good": "#6cb6f5",
    "bad": "#ff9d5c",
    "warn": "#e3c04d",
    "patch": "#e39ad0",
    "fg-own": "#e6edf3",
    "dim-own": "#9aa5b1",
    "bg-own": "#15191e",
    "line-own": "#3a434d",
    "soft-own": "#20262d",
}
_DARK_HOSTS = (
    '[data-jp-theme-light="false"]',
    ".vscode-dark",
    ".vscode-high-contrast",
    'html[theme="dark"]',
    '[data-theme="dark"]',
)
_LIGHT_HOSTS = (
    '[data-jp-theme-light="true"]',
    ".vscode-light",
    'html[theme="light"]',
    '[data-theme="light"]',
)

_RULES = """
.afnb-card{--afnb-fg:var(--jp-content-font-color1,var(--vscode-editor-foreground,var(--afnb-fg-own)));
--afnb-dim:var(--jp-content-font-color2,var(--vscode-descriptionForeground,var(--afnb-dim-own)));
--afnb-bg:var(--jp-layout-color1,var(--vscode-editor-background,var(--afnb-bg-own)));
--afnb-line:var(--jp-border-color2,var(--vscode-panel-border,var(--afnb-line-own)));
--afnb-soft:var(--jp-layout-color2,var(--vscode-textCodeBlock-background,var(--afnb-soft-own)));
--afnb-mono:var(--jp-code-font-family,var(--vscode-editor-font-family,ui-monospace,"DejaVu Sans Mono",Menlo,
Consolas,monospace))}
.afnb-plain{display:none}
.afnb-card.afnb-card{display:block!important;box-sizing:border-box;max-width:60rem;margin:.3rem 0 .6rem;
padding:.8rem 1rem .9rem;border:1px solid var(--afnb-line);border-radius:8px;background:var(--afnb-bg);
color:var(--afnb-fg);font:14px/1.5 var(--jp-content-font-family,system-ui,-apple-system,"Segoe UI",
"DejaVu Sans",sans-serif);overflow-wrap:anywhere}
.afnb-card.afnb-card *{box-sizing:border-box}
.afnb-card .afnb-head{display:flex;flex-wrap:wrap;gap:.3rem .7rem;align-items:baseline;margin:0 0 .45rem}
.afnb-card .afnb-title{font-size:1.12em;font-weight:650;margin:0}
.afnb-card .afnb-h{font-weight:650;margin:.9rem 0 .25rem}
.afnb-card .afnb-badge{display:inline-block;padding:.05em .6em;border:1.5px solid currentColor;
border-radius:1em;font-weight:600;font-size:.92em;white-space:normal}
.afnb-card .afnb-good{color:var(--afnb-good)}
.afnb-card .afnb-bad{color:var(--afnb-bad)}
.afnb-card .afnb-warn{color:var(--afnb-warn)}
.afnb-card .afnb-quiet{color:var(--afnb-dim)}
.afnb-card .afnb-p{margin:.35rem 0;max-width:78ch;white-space:pre-line}
.afnb-card .afnb-cap{margin:.8rem 0 .2rem;color:var(--afnb-dim);font-size:.93em}
.afnb-card .afnb-facts{display:grid;grid-template-columns:minmax(6rem,max-content) 1fr;gap:.1rem 1.1rem;
margin:.5rem 0}
.afnb-card .afnb-facts dt{color:var(--afnb-dim);font-weight:400;margin:0;float:none;width:auto}
.afnb-card .afnb-facts dd{margin:0;white-space:pre-line}
.afnb-card .afnb-scroll{overflow-x:auto;max-width:100%}
.afnb-card table.afnb-table{border-collapse:collapse;margin:.2rem 0 .4rem;font-size:.93em;border:0;
width:auto;table-layout:auto;color:inherit}
.afnb-card table.afnb-table th,.afnb-card table.afnb-table td{text-align:left;vertical-align:top;
padding:.22rem .9rem .22rem 0;border:0;border-bottom:1px solid var(--afnb-line);max-width:34rem;
background:transparent;white-space:normal;overflow-wrap:normal;word-break:normal}
.afnb-card.afnb-card.afnb-card td.afnb-long{overflow-wrap:anywhere;min-width:10rem}
.afnb-card table.afnb-table th{color:var(--afnb-dim);font-weight:500;white-space:nowrap}
.afnb-card table.afnb-table th.afnb-num,.afnb-card table.afnb-table td.afnb-num{text-align:right;
font-variant-numeric:tabular-nums;white-space:nowrap}
.afnb-card table.afnb-table tbody tr{background:transparent!important}
.afnb-card table.afnb-bars td{border-bottom:0;vertical-align:middle;padding-top:.12rem;padding-bottom:.12rem}
.afnb-card table.afnb-bars td:first-child{min-width:9rem;max-width:20rem}
.afnb-card table.afnb-bars td:nth-child(2){width:300px;min-width:8rem}
.afnb-card table.afnb-bars td:nth-child(n+3){white-space:nowrap;font-variant-numeric:tabular-nums}
.afnb-card pre.afnb-code{margin:.3rem 0;padding:.5rem .7rem;background:var(--afnb-soft);color:var(--afnb-fg);
border:0;border-radius:5px;font:12.5px/1.5 var(--afnb-mono);white-space:pre-wrap;overflow-x:auto}
.afnb-card.afnb-card.afnb-card pre.afnb-code code{background:transparent;color:inherit;padding:0;border:0;
font:inherit;white-space:inherit}
.afnb-card code.afnb-step{font:12.5px/1.5 var(--afnb-mono);background:var(--afnb-soft);color:var(--afnb-fg);
padding:.1em .4em;border:0;border-radius:4px;white-space:pre-wrap}
.afnb-card .afnb-next{display:flex;flex-wrap:wrap;gap:.3rem .6rem;align-items:baseline;margin:.8rem 0 0;
padding:.55rem 0 0;border-top:1px solid var(--afnb-line)}
.afnb-card details.afnb-fold{margin:.5rem 0}
.afnb-card details.afnb-fold>summary{cursor:pointer;font-weight:600}
.afnb-card details.afnb-fold>div{margin-left:1.1rem}
.afnb-card.afnb-card.afnb-card .afnb-notes{margin:.15rem 0 .3rem;padding:0;list-style:none}
.afnb-card.afnb-card .afnb-notes li{margin:.1rem 0;padding-left:1.1rem;text-indent:-1.1rem}
.afnb-card .afnb-row{display:flex;flex-wrap:wrap;gap:0 2rem}
.afnb-card .afnb-row>figure{flex:1 1 300px;max-width:420px}
.afnb-card .afnb-fig{margin:.5rem 0;padding:0;max-width:100%}
.afnb-card .afnb-fig svg{display:block;width:100%;height:auto;overflow:visible}
.afnb-card svg text{fill:var(--afnb-fg);font:13px var(--jp-content-font-family,system-ui,"DejaVu Sans",
sans-serif)}
.afnb-card svg .afnb-small{font-size:11px}
.afnb-card svg .afnb-t-dim{fill:var(--afnb-dim)}
.afnb-card svg .afnb-f-good{fill:var(--afnb-good)}
.afnb-card svg .afnb-f-bad{fill:var(--afnb-bad)}
.afnb-card svg .afnb-f-warn{fill:var(--afnb-warn)}
.afnb-card svg .afnb-f-patch{fill:var(--afnb-patch)}
.afnb-card svg .afnb-f-dim{fill:var(--afnb-dim)}
.afnb-card svg .afnb-f-bg{fill:var(--afnb-bg)}
.afnb-card svg .afnb-f-track{fill:var(--afnb-soft);stroke:var(--afnb-line)}
.afnb-card svg .afnb-s-good{stroke:var(--afnb-good)}
.afnb-card svg .afnb-s-bad{stroke:var(--afnb-bad)}
.afnb-card svg .afnb-s-patch{stroke:var(--afnb-patch)}
.afnb-card svg .afnb-s-dim{stroke:var(--afnb-dim)}
.afnb-card svg .afnb-s-fg{stroke:var(--afnb-fg)}
.afnb-card svg .afnb-s-line{stroke:var(--afnb-line)}
@media print{.afnb-card{break-inside:avoid}}
@media (forced-colors:active){.afnb-card svg{forced-color-adjust:auto}}
"""


def _colours(selectors: tuple[str, ...], values: dict[str, str]) -> str:
    body = ";".join(f"--afnb-{name}:{value}" for name, value in values.items())
    return f"{','.join(selectors)}{{{body}}}"


def _style() -> str:
    dark = _colours((".afnb-card",), _DARK)
    rules = [
        _colours((".afnb-card",), _LIGHT),
        f"@media (prefers-color-scheme:dark){{{dark}}}",
        _colours(tuple(f"{host} .afnb-card" for host in _LIGHT_HOSTS), _LIGHT),
        _colours(tuple(f"{host} .afnb-card" for host in _DARK_HOSTS), _DARK),
        _RULES.strip().replace(",\n", ",").replace("\n", "").replace(";}", "}"),
    ]
    return "\n".join(rules)


STYLE = _style()
