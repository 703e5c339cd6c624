#pragma once

#include <concepts>
#include <variant>

namespace troupe {

template <typename T, typename Variant>
inline constexpr bool kIsAlternative = false;
template <typename T, typename... Ts>
inline constexpr bool kIsAlternative<T, std::variant<Ts...>> =
    (std::same_as<T, Ts> || ...);

/// A type that the variant can hold.
template <typename T, typename Variant>
concept AlternativeOf = kIsAlternative<T, Variant>;

template <typename... Variants>
struct JoinVariants;
template <typename... Ts>
struct JoinVariants<std::variant<Ts...>> {
  using type = std::variant<Ts...>;
};
template <typename... Ts, typename... Us, typename... Rest>
struct JoinVariants<std::variant<Ts...>, std::variant<Us...>, Rest...> {
  using type = typename JoinVariants<std::variant<Ts..., Us...>, Rest...>::type;
};

/// The variant of all alternatives of these variants, in their order.
template <typename... Variants>
using JoinedVariant = typename JoinVariants<Variants...>::type;

}  // namespace troupe
