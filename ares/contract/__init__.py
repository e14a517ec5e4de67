"""What the signals of a dataset mean: unit, mode, rotation and gripper, inferred, compared and converted."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares.contract.agreement import (
        AGREEMENT_EPISODES as AGREEMENT_EPISODES,
        Agreement as Agreement,
        compare_sources as compare_sources,
        compare_tasks as compare_tasks,
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
        replace_names as replace_names,
        with_turned_rotation as with_turned_rotation,
        write_contracts as write_contracts,
    )
    from ares.contract.conversions import (
        ROTATION_FORMS as ROTATION_FORMS,
        convert_rotation_form as convert_rotation_form,
        rotation_width as rotation_width,
    )
    from ares.contract.evidence import (
        CONTRACT_EPISODES as CONTRACT_EPISODES,
        ContractEvidence as ContractEvidence,
        collect_contract_evidence as collect_contract_evidence,
    )
    from ares.contract.infer import infer_contract as infer_contract, infer_contracts as infer_contracts
    from ares.contract.kinematics import (
        KinematicChain as KinematicChain,
        Kinematics as Kinematics,
        end_effector_positions as end_effector_positions,
        read_kinematic_chains as read_kinematic_chains,
    )
    from ares.contract.mixing import (
        Clash as Clash,
        ClashError as ClashError,
        SetConverter as SetConverter,
        find_clashes as find_clashes,
    )
    from ares.contract.profiles import (
        FeatureProfile as FeatureProfile,
        compare_features as compare_features,
    )
    from ares.contract.set_contracts import (
        LayoutContract as LayoutContract,
        find_contracts_of_episodes as find_contracts_of_episodes,
    )
    from ares.contract.statements import parse_conversions as parse_conversions

__getattr__ = lazy_exports(__name__)
