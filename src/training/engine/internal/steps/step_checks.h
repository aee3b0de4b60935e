// Checks for mistakes of users around a step, each with its error.
#pragma once

#include <vector>

#include "ir/models/network.h"
#include "ir/precision/precision.h"
#include "training/data/batch.h"

namespace tessera {

///   throws  UserError (65) when a field of the batch is missing or does not have the type,
///           including the rows, that the step takes
void check_rows(const std::vector<Field>& wanted, const Batch& batch);
///   throws  UserError (65) when a field that a prediction of `rows` rows reads is missing or does
///           not have the type
void check_prediction(const std::vector<Field>& wanted, const Batch& batch, int64_t rows);

///   throws  UserError (65) when the training graph has no variable `name`, or has it with another
///           type
void check_variable(const Graph& training, const std::string& name, const TensorType& type);

/// throws  UserError (5) when the loss of `step`, counted from 1, is not finite
void check_is_a_number(double loss, int64_t step);

///   throws  UserError (2) when the loss is scaled, because manual gradient accumulation
///           has no scale
void check_accumulates(const Precision& precision);

/// throws  UserError (2) when the network does not predict the next token
void check_predicts(const Network& network);

///   throws  UserError (2) when steps are in flight; `what` is the called function, which belongs
///           between steps
void check_none_in_flight(int64_t in_flight, const char* what);

///   throws  UserError (2) when gradients were accumulated and not applied; `what` is the called
///           function, which would lose them or begins another step
void check_none_accumulated(int64_t batches, const char* what);

///   throws  UserError (2) when no batch was accumulated; `what` is the called function, which
///           needs one
void check_is_accumulated(int64_t batches, const char* what);

}  // namespace tessera
