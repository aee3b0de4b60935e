// The result of a plan search: a verdict, the ranked table of what was compared, and why a
// candidate is slower than the best one.
#pragma once

#include <string>
#include <vector>

#include "base/files/document.h"
#include "simulator/report/reported_plan.h"
#include "tools/cli/internal/run/plan_search.h"

namespace tessera {

/// One line: "dp=2,tp=2 on 4 devices: 12.3 ms a step, 51,000 tokens/s, 1.2 GiB of 8 GiB; 1.9 times
/// one device"; "with 9 ranks on 4 cores" where ranks share cores; when nothing fits, that and the
/// bytes that the nearest candidate lacks.
std::string verdict_line(const Planned& planned);
/// Whose software runs the best plan, and the interval of its step; "" of our own runtime.
std::string runtime_line(const Planned& planned);

/// Five lines: the verdict, what it was compared with, where the time goes, what is sent, and for
/// which devices.
std::vector<std::string> verdict_lines(const Planned& planned);

/// "search problem: its best plan takes 4.7 ms, and none takes less than 4.7 ms ...\n": what its
/// bound is of.
/// "" when the best plan is not of the search.
std::string problem_text(const Planned& planned);

/// "Lower bound: 3 ms (compute roofline of 8 devices, no communication). Best plan: 2.1x the
/// bound.\n"
/// (planner/search/candidates/step_floor.h). "" when there is no plan, or no plan on one device to
/// count its operations.
std::string floor_text(const Planned& planned);

/// "axes on the cluster: dp on leaf; tp on hccs; pp on leaf, spine\n": the links over which the
/// axes of the best plan exchange. "" on one machine.
std::string axes_text(const Planned& planned);

/// "would fit    devices of 1.2 GiB; --set train.batch=8; --ranks 8\n"
std::string changes_text(const NearestChanges& changes);
/// {memory_bytes, batch, ranks}
Document changes_document(const NearestChanges& changes);

/// What the user should know of the best plan, a line each: fewer devices are faster, presets were
/// left out, the time limit ended the search.
std::vector<std::string> plan_search_notes(const Planned& planned);

/// The ranked table with what does not fit; below it the Pareto front of time and memory where it
/// has several plans, what was excluded, and the presets that are impossible.
std::string ranking_text(const Planned& planned);
/// The same as tables of a page.
std::vector<ReportedTable> ranking_tables(const Planned& planned);

/// "+3.1 ms: compute +1, exchanges +2.5, waits -0.4": where `candidate` takes more time than `best`
/// on the cluster, in the mean over the ranks. On several machines the exchanges are those within
/// them and those between them: axes of two plans have nothing in common. "" for the best itself.
std::string difference_text(const Cluster& cluster, const EvaluatedCandidate& candidate,
                            const EvaluatedCandidate& best);

/// The keys of docs/planner.md, without the plan.
Document plan_search_document(const Planned& planned);

}  // namespace tessera
