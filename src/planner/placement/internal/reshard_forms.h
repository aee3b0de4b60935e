// Prices of reshards that are not planned: what plan_reshard() would make, found from the axes that
// change and the bytes of one rank.
#pragma once

#include "base/tensor/tensor.h"
#include "cluster/cost/cost_model.h"
#include "sharding/layout/dist_attr.h"

namespace tessera {

/// Is the price of this reshard one of sums over axes? It is not where an end has windows, chunks
/// or uneven parts, or the parts of an axis that stays move to other ranks.
bool has_closed_form(const TensorType& type, const DistAttr& from, const DistAttr& to);

/// The price of a reshard in closed form, from the bytes of one rank: slices first, then
/// reduce-scatters, all-to-alls and all-gathers over one axis each, or one exchange between all
/// ranks concerned, whichever takes less without copies. To it come the copies at the receiver.
///
///   requires  has_closed_form(type, from, to)
///   source    docs/sharding.md; Thakur, Rabenseifner and Gropp 2005
Price closed_form_price(const TensorType& type, const DistAttr& from, const DistAttr& to,
                        const CostModel& cost);

/// The price of a reshard between even parts that has no closed form: axes that change places one
/// after the other, sums first, or one exchange between all ranks. Where plan_reshard() lets an
/// axis wait in a dim that is not its place, or exchanges two axes, this is up to three times as
/// much.
///
///   requires  no end has windows, chunks or uneven parts; no axis becomes partial
Price rearranged_price(const TensorType& type, const DistAttr& from, const DistAttr& to,
                       const CostModel& cost);

/// Has the placement plain parts of equal size?
bool has_even_parts(const TensorType& type, const DistAttr& attr);
/// Is `to` partial on an axis on which `from` is not?
bool starts_partial(const DistAttr& from, const DistAttr& to);

}  // namespace tessera
