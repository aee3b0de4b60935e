// The style sheet of the page.
#pragma once

#include <string_view>

namespace tessera {

/// Colours for a light and for a dark page; a narrow page has one column.
inline constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --text: #1b1f24; --quiet: #59636e; --page: #ffffff;
  --line: #d1d9e0; --box: #f6f8fa;
  --good: #1a7f37; --bad: #cf222e; --c0: #4e79a7; --c1: #9c9c9c; --c2: #59a14f; --c3: #e15759;
  --c4: #edc948; --c5: #b07aa1; --c6: #76b7b2; --c7: #f28e2b; }
@media (prefers-color-scheme: dark) { :root { --text: #e6edf3; --quiet: #9198a1; --page: #0d1117;
  --line: #3d444d; --box: #151b23;
  --good: #3fb950; --bad: #f85149; --c0: #6fa0d0; --c1: #8a8a8a; --c2: #7cc36f; --c3: #ee7a7c;
  --c4: #d9b63a; --c5: #c79abb; --c6: #8fd0cb; --c7: #f5a65a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 110rem; background: var(--page);
  color: var(--text); font: 15px/1.5 system-ui, sans-serif; }
h1, h2, h3 { overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: 0 0 .5rem; } h2 { font-size: 1.2rem; } h3 { font-size: 1rem;
  margin: 1.2rem 0 .4rem; }
.plans { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 42rem), 1fr));
  gap: 1rem; align-items: start; margin-top: 1rem; }
article { border: 1px solid var(--line); border-radius: 6px; padding: 0 1rem 1rem; min-width: 0; }
.wide { overflow-x: auto; } .hint { display: none; }
@media (max-width: 48rem) { .hint { display: block; } body { padding: .5rem; }
  article { padding: 0 .5rem .5rem; } td.words { min-width: 14rem; } }
table { border-collapse: collapse; font-size: .9rem; margin: .4rem 0; }
th, td { text-align: left; padding: .15rem .8rem .15rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; overflow-wrap: break-word; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
td.number { white-space: nowrap; } td.words { min-width: 24rem; }
th { color: var(--quiet); font-weight: 600; vertical-align: bottom; }
pre { background: var(--box); padding: .5rem; overflow-x: auto; font-size: .8rem; }
svg { display: block; width: 100%; min-width: 640px; height: auto; }
svg text { fill: var(--text); font-size: 13px; }
svg text.label { paint-order: stroke; stroke: var(--page); stroke-width: 3px; }
p { margin: .3rem 0; overflow-wrap: anywhere; } .note, .legend { color: var(--quiet);
  font-size: .85rem; }
.legend span { margin-right: .9rem; white-space: nowrap; } .legend i { display: inline-block;
  width: .8rem; height: .8rem; margin-right: .3rem; vertical-align: -1px; }
.good { color: var(--good); font-weight: 600; } .bad { color: var(--bad); font-weight: 600; }
.frame { fill: none; stroke: var(--line); } .mark { stroke: var(--text); stroke-dasharray: 4 3; }
  .heat { fill: var(--c0); }
.forward, .memory0, .mesh0 { fill: var(--c0); background: var(--c0); }
  .other, .memory1, .mesh7 { fill: var(--c1); background: var(--c1); }
.backward, .memory2, .mesh1 { fill: var(--c2); background: var(--c2); }
  .exchange, .memory3, .mesh2 { fill: var(--c3); background: var(--c3); }
.weights, .memory4, .mesh3 { fill: var(--c4); background: var(--c4); }
  .optimizer, .memory5, .mesh4 { fill: var(--c5); background: var(--c5); }
.memory6, .mesh5 { fill: var(--c6); background: var(--c6); } .mesh6 { fill: var(--c7);
  background: var(--c7); }
)";

}  // namespace tessera
