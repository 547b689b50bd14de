// Field numbers of SentencePiece's message ModelProto and of the messages inside it (sentencepiece_model.proto).
#pragma once

#include <cstdint>

namespace hexad::data::sentence_piece {

enum ModelField : uint64_t { pieces = 1, trainer = 2, normalizer = 3 };
enum PieceField : uint64_t { piece_text = 1 };
enum TrainerField : uint64_t { model_type = 3, whitespace_as_suffix = 24, byte_fallback = 35 };
enum NormalizerField : uint64_t { character_map = 2, dummy_prefix = 3, remove_extra_spaces = 4, escape_spaces = 5 };

}  // namespace hexad::data::sentence_piece
