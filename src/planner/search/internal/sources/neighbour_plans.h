// Plans that differ from a plan in one decision.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"
#include "planner/search/internal/candidates/candidate.h"
#include "planner/search/sources/incumbents.h"

namespace tessera {

/// At most `count` plans, each with one decision changed that the constraints leave open. First
/// those of a pipeline: twice and half as many micro-batches, the schedule zb-h1; then larger and
/// smaller buckets of gradients, exchanges that are combined or not, matmuls that are decomposed;
/// then, of a plan of the search, the next best strategy of one node of its problem, which is a
/// class of ops or the placement of a value, in ascending order of the times of the problem.
///
///   candidate  one that the constraints allow
///   ensures    the names say what was changed: "dp=2, bucket_mib=100"; plans of a search have
///              their changes in Candidate::problem
std::vector<Candidate> neighbour_plans(const PlanRequest& request,
                                       const PlanConstraints& constraints,
                                       const Candidate& candidate, int64_t count);

/// The plan with windows of prefetches (Plan::prefetch_window) that twice and eight times the bytes
/// of the largest gather of parameters fill, which is issued only at its turn where it is larger
/// than the window. None where no gather is, and when the constraints fix the window.
///
///   largest  Traffic::largest_of_variables of the candidate
std::vector<Candidate> with_wider_prefetch(const PlanConstraints& constraints,
                                           const Candidate& candidate, Bytes largest);

}  // namespace tessera
