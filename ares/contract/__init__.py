"""What the signals of a dataset mean: unit, mode, rotation and gripper, inferred, compared and converted."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares.contract.clashes import (
        Clash as Clash,
        compare_observed as compare_observed,
        find_clashes as find_clashes,
    )
    from ares.contract.contracts import (
        PROPERTIES as PROPERTIES,
        VALUES as VALUES,
        DatasetKey as DatasetKey,
        DimensionPlan as DimensionPlan,
        MeaningContract as MeaningContract,
        PropertyName as PropertyName,
        SignalContract as SignalContract,
        SignalName as SignalName,
        StatedValues as StatedValues,
        StoredContracts as StoredContracts,
        correct_contract as correct_contract,
        delete_contracts_except as delete_contracts_except,
        is_allowed_property_value as is_allowed_property_value,
        is_dimension_group_name as is_dimension_group_name,
        plan_dimensions as plan_dimensions,
        read_contracts as read_contracts,
        rename_contract_dimensions as rename_contract_dimensions,
        write_contracts as write_contracts,
    )
    from ares.contract.evidence import (
        CONTRACT_EPISODES as CONTRACT_EPISODES,
        ContractEvidence as ContractEvidence,
        collect_contract_evidence as collect_contract_evidence,
    )
    from ares.contract.infer import infer_contract as infer_contract, infer_contracts as infer_contracts
    from ares.contract.mixing import ClashError as ClashError, SetConverter as SetConverter
    from ares.contract.set_contracts import (
        LayoutContract as LayoutContract,
        find_contracts_of_episodes as find_contracts_of_episodes,
        plan_layout_conversion as plan_layout_conversion,
    )
    from ares.contract.statements import parse_conversions as parse_conversions

__getattr__ = lazy_exports(__name__)
