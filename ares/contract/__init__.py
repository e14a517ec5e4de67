"""What the signals of a dataset mean: unit, mode, rotation and gripper, inferred, compared and converted."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares.contract.conversions import (
        parse_conversions as parse_conversions,
    )
    from ares.contract.evidence import (
        CONTRACT_EPISODES as CONTRACT_EPISODES,
        EpisodeEvidence as EpisodeEvidence,
        episode_evidence as episode_evidence,
    )
    from ares.contract.infer import infer_contract as infer_contract, infer_stored as infer_stored
    from ares.contract.kinematics import (
        KinematicChain as KinematicChain,
        Kinematics as Kinematics,
        end_effector_positions as end_effector_positions,
        read_chains as read_chains,
    )
    from ares.contract.layouts import (
        LayoutContract as LayoutContract,
        contracts_of_episodes as contracts_of_episodes,
    )
    from ares.contract.mixing import (
        Clash as Clash,
        ClashError as ClashError,
        SetConversion as SetConversion,
        find_clashes as find_clashes,
    )
    from ares.contract.terms import (
        PROPERTIES as PROPERTIES,
        VALUES as VALUES,
        DatasetKey as DatasetKey,
        MeaningContract as MeaningContract,
        PropertyName as PropertyName,
        SignalContract as SignalContract,
        SignalName as SignalName,
        StatedValues as StatedValues,
        StoredContracts as StoredContracts,
        correct_contract as correct_contract,
        drop_contracts as drop_contracts,
        is_signal_group as is_signal_group,
        read_contracts as read_contracts,
        stated_value as stated_value,
        write_contracts as write_contracts,
    )

__getattr__ = lazy_exports(__name__)
